"""Rewrites the source of a module so that its functions mark what they reach.

`rewrite(source, path, first)` gives the changed tree and its Counters, numbered from `first`:

  line    one for each statement of a function: a store before it. Docstrings, `...`, `global` and
          `nonlocal` are no statements here; a compound statement is its header.
  branch  one for each arm: `if` true and false, a loop entered and empty, `except` and `case`
          entered, both sides of `x if c else y`, each operand of `and` and `or` but the first, the
          body of a lambda and of a comprehension.

Guarantees: what the module does, its line numbers (tracebacks, inspect) and its names stay as they
are, but for two globals and one local variable a loop, all beginning with `_shardfuzz_`. A
statement's mark is one byte stored into a buffer, an expression's a call of its __setitem__.

Not counted: statements outside of functions, since they run at import whatever is tested
(`import_statements` is their number); functions whose source is not what runs (decorated with
compile, script or jit); decorators, default values and annotations; a loop's empty arm is one of
for and while alone, not of comprehensions.
"""

import ast
import dataclasses

HITS = "_shardfuzz_hits"  # the buffer
MARK = "_shardfuzz_mark"  # its __setitem__
_EMPTY = "_shardfuzz_empty_"  # a loop has not been entered
_NOT_INTERPRETED = {"compile", "script", "jit"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_TEXT_MAX = 100


@dataclasses.dataclass
class Counter:
    kind: str  # "line" or "branch"
    line: int
    last_line: int  # of a simple statement; of others the header's line
    function: str  # qualified name
    text: str  # of a line: its source; of a branch: the arm
    before: int = -1  # of a line: the statement that runs before it, or whose block it opens;
    # of a branch: the statement that it belongs to
    guard: str = ""  # of a block's first statement and of the arm that opens it: what leads there


@dataclasses.dataclass
class Rewritten:
    tree: ast.Module
    counters: list
    import_statements: int


def rewrite(source, path, first=0):
    return _Rewriter(source, path, first).run()


def _decorator_name(node):
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_constant(statement, kind):
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, kind)
    )


def _is_docstring(statement):
    return _is_constant(statement, str)


class _Rewriter:
    def __init__(self, source, path, first):
        self.tree = ast.parse(source, path)
        self.lines = source.splitlines() if isinstance(source, str) else _decoded(source)
        self.first = first
        self.counters = []
        self.import_statements = 0
        self.function = ""
        self.statement = -1  # number of the one whose inside is being rewritten

    def run(self):
        self._outside(self.tree.body, "")
        ast.fix_missing_locations(self.tree)
        return Rewritten(self.tree, self.counters, self.import_statements)

    # --- outside of functions --------------------------------------------------------------------

    def _outside(self, statements, prefix):
        for number, statement in enumerate(statements):
            if not (number == 0 and _is_docstring(statement)):
                self.import_statements += 1
            if isinstance(statement, _FUNCTIONS):
                self._rewrite_function(statement, prefix + statement.name)
            elif isinstance(statement, ast.ClassDef):
                self._outside(statement.body, prefix + statement.name + ".")
            else:
                for block in _blocks_of(statement):
                    self._outside(block, prefix)

    def _rewrite_function(self, node, name):
        if any(_decorator_name(d) in _NOT_INTERPRETED for d in node.decorator_list):
            return
        outer, self.function = self.function, name
        head = node.body[:1] if _is_docstring(node.body[0]) else []
        body = self._block(node.body[len(head) :], -1, "")
        node.body = head + body
        self.function = outer

    # --- marks -----------------------------------------------------------------------------------

    def _count(self, kind, node, text, **more):
        last = node.lineno if _blocks_of(node) else node.end_lineno
        self.counters.append(Counter(kind, node.lineno, last, self.function, text, **more))
        return self.first + len(self.counters) - 1

    def _store(self, number, node):
        target = ast.Subscript(ast.Name(HITS, ast.Load()), ast.Constant(number), ast.Store())
        return _placed(ast.Assign([target], ast.Constant(1)), node)

    def _branch(self, node, arm, guard=""):
        number = self._count("branch", node, arm, before=self.statement, guard=guard)
        return self._store(number, node)

    def marked(self, node, arm):
        """The expression, marked: `mark(number, 1) or expression`; mark gives None."""
        number = self._count("branch", node, arm, before=self.statement)
        call = ast.Call(
            ast.Name(MARK, ast.Load()), [ast.Constant(number), ast.Constant(1)], keywords=[]
        )
        return _placed(ast.BoolOp(ast.Or(), [_placed(call, node), node]), node)

    def _text(self, node):
        return self.lines[node.lineno - 1].strip()[:_TEXT_MAX]

    # --- statements ------------------------------------------------------------------------------

    def _block(self, statements, before, guard):
        result = []
        for statement in statements:
            if isinstance(statement, (ast.Global, ast.Nonlocal)) or _is_constant(
                statement, type(...)
            ):
                result.append(statement)
                continue
            before = self._count(
                "line", statement, self._text(statement), before=before, guard=guard
            )
            guard = ""
            result.append(self._store(before, statement))
            self.statement = before
            result += self._statement(statement, before)
        return result

    def _statement(self, node, number):
        """The statement with its inside rewritten, as a list."""
        if isinstance(node, _FUNCTIONS):
            self._rewrite_function(node, f"{self.function}.<locals>.{node.name}")
            return [node]
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, _FUNCTIONS):
                    name = f"{self.function}.<locals>.{node.name}.{inner.name}"
                    self._rewrite_function(inner, name)
            return [node]
        self._expressions(node)
        text = self._text(node)
        if isinstance(node, ast.If):
            other = "else of " + text
            true = self._branch(node, "true", text)
            false = self._branch(node, "false", other if node.orelse else "")
            node.body = [true, *self._block(node.body, number, text)]
            node.orelse = [false, *self._block(node.orelse, number, other)]
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            return self._loop(node, number, text)
        elif isinstance(node, ast.Match):
            for case in node.cases:
                self.statement = number
                guard = "case " + ast.unparse(case.pattern)
                arm = self._branch(case.pattern, guard, guard)
                case.body = [arm, *self._block(case.body, number, guard)]
        else:
            self._other_blocks(node, number, text)
        return [node]

    def _other_blocks(self, node, number, text):
        for handler in getattr(node, "handlers", []):
            self.statement, guard = number, self._text(handler)
            arm = self._branch(handler, "except", guard)
            handler.body = [arm, *self._block(handler.body, number, guard)]
        for field, guard in [("body", text), ("orelse", "else of " + text), ("finalbody", text)]:
            if getattr(node, field, None):
                setattr(node, field, self._block(getattr(node, field), number, guard))

    def _loop(self, node, number, text):
        name = f"{_EMPTY}{number}"

        def is_empty(value):
            return _placed(ast.Assign([ast.Name(name, ast.Store())], ast.Constant(value)), node)

        entered, empty = self._branch(node, "entered", text), self._branch(node, "empty")
        note = _placed(ast.If(ast.Name(name, ast.Load()), [empty], []), node)
        node.body = [is_empty(False), entered, *self._block(node.body, number, text)]
        node.orelse = [note, *self._block(node.orelse, number, "else of " + text)]
        return [is_empty(True), node]

    def _expressions(self, node):
        """Marks the arms of expressions that belong to the statement itself."""
        arms = _Arms(self)
        for field, value in ast.iter_fields(node):
            if field == "annotation":
                continue
            if isinstance(value, ast.expr):
                setattr(node, field, arms.visit(value))
            elif isinstance(value, list):
                for i, item in enumerate(value):
                    if isinstance(item, (ast.expr, ast.withitem)):
                        value[i] = arms.visit(item)
                    elif isinstance(item, ast.match_case) and item.guard:
                        item.guard = arms.visit(item.guard)


class _Arms(ast.NodeTransformer):
    def __init__(self, rewriter):
        self._marked = rewriter.marked

    def visit_IfExp(self, node):
        node.test = self.visit(node.test)
        node.body = self._marked(self.visit(node.body), "value if true")
        node.orelse = self._marked(self.visit(node.orelse), "value if false")
        return node

    def visit_BoolOp(self, node):
        name = "and" if isinstance(node.op, ast.And) else "or"
        first, *others = [self.visit(value) for value in node.values]
        node.values = [first, *(self._marked(value, f"right of {name}") for value in others)]
        return node

    def visit_Lambda(self, node):
        node.body = self._marked(self.visit(node.body), "lambda")
        return node

    def _comprehension(self, node, field):
        self.generic_visit(node)
        setattr(node, field, self._marked(getattr(node, field), "comprehension"))
        return node

    def visit_ListComp(self, node):
        return self._comprehension(node, "elt")

    visit_SetComp = visit_GeneratorExp = visit_ListComp

    def visit_DictComp(self, node):
        return self._comprehension(node, "key")


def _placed(node, where):
    return ast.fix_missing_locations(ast.copy_location(node, where))


def _decoded(source):
    import importlib.util

    return importlib.util.decode_source(source).splitlines()


def _blocks_of(node):
    """The lists of statements within a statement (or except clause)."""
    blocks = [getattr(node, name, None) for name in ("body", "orelse", "finalbody")]
    blocks += [handler.body for handler in getattr(node, "handlers", [])]
    blocks += [case.body for case in getattr(node, "cases", [])]
    return [block for block in blocks if isinstance(block, list) and block]
