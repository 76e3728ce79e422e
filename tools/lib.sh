# shellcheck shell=bash
# What the scripts beside this file share: packages, Python, build folder, one line a step.
#
# Guarantees: nothing is written into the clone; all goes to $SHARDFUZZ_CACHE. A folder is used only
# after its stamp was written, and a stamp is written last, so an interrupted set-up starts again.
# Two set-ups at once wait for each other. What is there already costs milliseconds and no line.
# Refuses (exit 2, with what to do): missing packages without root, a Python that cannot be
# embedded. Use: source it, prepare_options "$@", prepare run, build_targets shardfuzz ...

SHARDFUZZ_SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
SHARDFUZZ_CACHE=${SHARDFUZZ_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/shardfuzz}
kBadEnvironment=2  # ExitCode::kBadInput of harness/base/exit_code.h
kLogLines=60
kUnusedDaysMax=30  # an environment takes 5 GB
kJobMemoryMib=3000  # what one file that includes torch needs at most

say() { printf 'shardfuzz: %s\n' "$*" >&2; }

fail() {
  say "$*"
  exit "$kBadEnvironment"
}

# ${EPOCHREALTIME} has the radix sign of the locale.
now_us() { printf '%s' "${EPOCHREALTIME/[.,]/}"; }

seconds_since() {
  local tenths=$((($(now_us) - $1) / 100000))
  printf '%d.%d s' $((tenths / 10)) $((tenths % 10))
}

short_hash() { sha256sum | cut -c1-12; }

# step TEXT LOG COMMAND...: one line that tells TEXT and the time; where COMMAND fails, the end of
# LOG.
step() {
  local text=$1 log=$2 start
  shift 2
  start=$(now_us)
  printf 'shardfuzz: %s ... ' "$text" >&2
  if "$@" >"$log" 2>&1 </dev/null; then
    printf '%s\n' "$(seconds_since "$start")" >&2
    return
  fi
  printf 'FAILED after %s\n' "$(seconds_since "$start")" >&2
  tail -n "$kLogLines" "$log" >&2
  fail "failed: $text; the whole log: $log"
}

# with_lock FILE COMMAND...: one process at a time. The lock goes with the process, however it ends.
with_lock() {
  local file=$1
  shift
  mkdir -p "$(dirname "$file")"
  exec 9>"$file"
  if ! flock -n 9; then
    say "waiting for another set-up or build that holds $file"
    flock 9
  fi
  "$@"
  exec 9>&-
}

# --- options -------------------------------------------------------------------------------------

options_help() {
  cat <<TEXT
options of the wrapper, taken from anywhere in the line:
  --python PATH   use this interpreter, with its own torch and torchao, instead of making one
  --help          this text
environment:
  SHARDFUZZ_CACHE        where the Python environment and the builds live (${SHARDFUZZ_CACHE})
  SHARDFUZZ_PYTHON       the same as --python
  SHARDFUZZ_BASE_PYTHON  the interpreter to make the environment from (/usr/bin/python3)
  SHARDFUZZ_APT          0: do not look at Debian packages, the tools come from elsewhere
  SHARDFUZZ_BUILD_TYPE   RelWithDebInfo, Debug or Release
  SHARDFUZZ_JOBS         compilers at once (from the cores and the free memory)
TEXT
}

# Takes the wrapper's own options out of the line; the rest is left in rest_args. The script that
# sources this file has a function usage.
prepare_options() {
  rest_args=()
  while (($# > 0)); do
    case $1 in
      --python)
        (($# >= 2)) || fail "--python needs a path"
        SHARDFUZZ_PYTHON=$2
        shift
        ;;
      --python=*) SHARDFUZZ_PYTHON=${1#--python=} ;;
      --help | -h)
        usage
        options_help
        program_help
        exit 0
        ;;
      *) rest_args+=("$1") ;;
    esac
    shift
  done
}

# --- Debian packages -----------------------------------------------------------------------------

# Fuzzing and replaying need neither clang nor RapidCheck nor GoogleTest.
packages_of() {
  local list=(g++ cmake ninja-build ccache libfmt-dev nlohmann-json3-dev libcli11-dev
    libtcmalloc-minimal4)
  if [[ -z ${SHARDFUZZ_PYTHON:-} && -z ${SHARDFUZZ_BASE_PYTHON:-} ]]; then
    list+=(python3-dev python3-venv)
  fi
  case $1 in
    run) ;;
    test) list+=(librapidcheck-dev libgtest-dev libbenchmark-dev git) ;;
    # A compiler that the user names comes with its own runtime.
    fuzzers) [[ -z ${clang:-} ]] || list+=("clang-$clang" "libclang-rt-$clang-dev") ;;
    *) fail "no such set of packages: $1 (run, test, fuzzers)" ;;
  esac
  printf '%s\n' "${list[@]}"
}

# Prints those of the named packages that are installed, each with its version.
installed_packages() {
  # shellcheck disable=SC2016  # dpkg-query's own variables
  dpkg-query -W -f='${Package} ${db:Status-Status} ${Version}\n' "$@" 2>/dev/null |
    awk '$2 == "installed" { print $1, $3 }' || true
}

missing_packages() {
  local wanted=("$@")
  comm -23 <(printf '%s\n' "${wanted[@]}" | LC_ALL=C sort) \
    <(installed_packages "${wanted[@]}" | cut -d' ' -f1 | LC_ALL=C sort -u)
}

apt_install() {
  export DEBIAN_FRONTEND=noninteractive
  local install=(apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@")
  # A fresh image has no lists, and old lists name versions that are gone.
  if compgen -G '/var/lib/apt/lists/*Packages*' >/dev/null && "${install[@]}"; then
    return
  fi
  apt-get update -o DPkg::Lock::Timeout=300 && "${install[@]}"
}

install_missing() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]} > 0)) || return 0  # another set-up was faster
  step "installing ${#missing[@]} Debian packages: ${missing[*]}" "$SHARDFUZZ_CACHE/apt.log" \
    apt_install "${missing[@]}"
}

ensure_packages() {
  local wanted missing
  wanted=$(packages_of "$1")
  mapfile -t wanted <<<"$wanted"
  [[ ${SHARDFUZZ_APT:-1} != 0 ]] || return 0
  if ! command -v dpkg-query >/dev/null; then
    say "no dpkg here: packages are not looked at; needed are: ${wanted[*]}"
    return 0
  fi
  mapfile -t missing < <(missing_packages "${wanted[@]}")
  ((${#missing[@]} > 0)) || return 0
  if [[ $(id -u) != 0 ]]; then
    fail "packages are missing; run: sudo apt-get install -y ${missing[*]}"
  fi
  with_lock "$SHARDFUZZ_CACHE/setup.lock" install_missing "${wanted[@]}"
}

# The newest clang that is there, else the oldest that is known to work, which is then installed.
kClangNewest=23
kClangOldest=19

# Sets CXX, and clang: the version whose packages are needed.
choose_clang() {
  [[ -z ${CXX:-} ]] || return 0
  for ((clang = kClangNewest; clang > kClangOldest; --clang)); do
    ! command -v "clang++-$clang" >/dev/null || break
  done
  export CXX=clang++-$clang
}

# --- Python --------------------------------------------------------------------------------------

# python_facts PYTHON: one fact a line: executable, tag (cp311), full version, Python.h, libpython,
# version of torch, version of torchao, end; an empty line for what is not there. Imports neither.
python_facts() {
  "$1" - <<'PYTHON'
import importlib.metadata, os, sys, sysconfig

def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""

variable = lambda name: sysconfig.get_config_var(name) or ""
header = os.path.join(sysconfig.get_path("include"), "Python.h")
folders = [variable("LIBDIR"), os.path.join(variable("LIBDIR"), variable("MULTIARCH")),
           variable("LIBPL")]
library = "libpython%d.%d.so" % sys.version_info[:2]
found = [os.path.join(f, library) for f in folders if os.path.exists(os.path.join(f, library))]
print(sys.executable)
print("cp%d%d" % sys.version_info[:2])
print(sys.version.replace("\n", " "))
print(header if os.path.exists(header) else "")
print(found[0] if found else "")
print(version("torch"))
print(version("torchao"))
print("end")  # a shell drops empty lines at the end
PYTHON
}

# Reads the facts into the array facts and refuses an interpreter that cannot be embedded.
read_python_facts() {
  local text
  command -v "$1" >/dev/null || fail "no such Python: $1"
  text=$(python_facts "$1") || fail "$1 does not run"
  mapfile -t facts <<<"$text"
  [[ ${#facts[@]} == 8 ]] || fail "$1 is no Python: it printed ${text:0:200}"
  [[ -n ${facts[3]} ]] ||
    fail "$1 has no Python.h: install its headers (python3-dev) or name another with --python"
  [[ -n ${facts[4]} ]] ||
    fail "$1 has no shared libpython: install python3-dev, or build it with --enable-shared"
}

import_check() { "$1" -c 'import torch, torchao; print(torch.__version__)'; }

remove_unused_venvs() {
  local stamp
  while read -r stamp; do
    say "removing $(dirname "$stamp"), not used for $kUnusedDaysMax days"
    rm -rf "$(dirname "$stamp")"
  done < <(find "$SHARDFUZZ_CACHE" -mindepth 2 -maxdepth 2 -path '*/venv-*/shardfuzz-ok' \
    -mtime "+$kUnusedDaysMax")
}

make_venv() {
  local base=$1 lock=$2 venv=$3
  [[ ! -e $venv/shardfuzz-ok ]] || return 0  # another set-up was faster
  rm -rf "$venv"
  remove_unused_venvs
  step "Python environment from $base" "$SHARDFUZZ_CACHE/venv.log" "$base" -m venv "$venv"
  step "installing torch, torchao, numpy and pytest (5 GB on disk)" "$SHARDFUZZ_CACHE/pip.log" \
    "$venv/bin/python" -m pip install --no-input --require-hashes -r "$lock"
  step "importing torch and torchao" "$SHARDFUZZ_CACHE/import.log" import_check "$venv/bin/python"
  : >"$venv/shardfuzz-ok"
}

ensure_own_venv() {
  local base=${SHARDFUZZ_BASE_PYTHON:-/usr/bin/python3} lock key
  read_python_facts "$base"
  lock=$SHARDFUZZ_SOURCE/tools/requirements-${facts[1]}.lock
  [[ $(uname -sm) == "Linux x86_64" && -e $lock ]] ||
    fail "no packages are pinned for ${facts[1]} on $(uname -sm):" \
      "use --python with a Python that has torch and torchao"
  key=$(cat "$lock" <(printf '%s\n' "${facts[0]}" "${facts[2]}") | short_hash)
  python=$SHARDFUZZ_CACHE/venv-$key/bin/python
  torch_version=$(awk -F'[= ]+' '$1 == "torch" { print $2 }' "$lock")
  if [[ ! -e $SHARDFUZZ_CACHE/venv-$key/shardfuzz-ok ]]; then
    with_lock "$SHARDFUZZ_CACHE/setup.lock" \
      make_venv "$base" "$lock" "$SHARDFUZZ_CACHE/venv-$key"
  fi
  touch "$SHARDFUZZ_CACHE/venv-$key/shardfuzz-ok"  # in use: see remove_unused_venvs
}

# The user's own Python: never changed, checked once for each pair of versions.
check_users_python() {
  local stamp
  read_python_facts "$SHARDFUZZ_PYTHON"
  python=${facts[0]}
  torch_version=${facts[5]}
  [[ -n ${facts[5]} && -n ${facts[6]} ]] ||
    fail "$python lacks torch or torchao: install them there, or leave --python out"
  stamp=$SHARDFUZZ_CACHE/python-$(printf '%s\n' "${facts[@]}" | short_hash).ok
  [[ ! -e $stamp ]] || return 0
  step "importing torch ${facts[5]} and torchao ${facts[6]} of $python" \
    "$SHARDFUZZ_CACHE/import.log" import_check "$python"
  : >"$stamp"
}

# prepare SET (run, test or fuzzers): packages and Python; sets python, torch_version and
# build_folder. A build with $sanitizers has a folder of its own.
prepare() {
  package_set=$1
  mkdir -p "$SHARDFUZZ_CACHE"
  SHARDFUZZ_CACHE=$(cd "$SHARDFUZZ_CACHE" && pwd -P)
  ensure_packages "$package_set"
  if [[ -n ${SHARDFUZZ_PYTHON:-} ]]; then
    check_users_python
  else
    ensure_own_venv
  fi
  build_type=${SHARDFUZZ_BUILD_TYPE:-RelWithDebInfo}
  build_folder=$SHARDFUZZ_CACHE/build-$(printf '%s\n' "$SHARDFUZZ_SOURCE" "$python" \
    "$torch_version" "$build_type" "${CXX:-}${sanitizers:+ $sanitizers}" | short_hash)
}

# --- build ---------------------------------------------------------------------------------------

# Changes when the build must be configured anew: files of the build system (Ninja does not see a
# part's first CMakeLists.txt), arguments, and the installed libraries that CMake looks for.
configure_key() {
  local packages
  packages=$(packages_of test)
  mapfile -t packages <<<"$packages"
  {
    printf '%s\n' "$@"
    ! command -v dpkg-query >/dev/null || installed_packages "${packages[@]}"
    cd "$SHARDFUZZ_SOURCE" || exit
    find . -path './build*' -prune -o -path './.*' -prune -o \
      \( -name CMakeLists.txt -o -name '*.cmake' \) -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
  } | short_hash
}

# A build folder of a clone that is gone serves nobody.
remove_orphaned_builds() {
  local mark
  for mark in "$SHARDFUZZ_CACHE"/build-*/shardfuzz-source; do
    [[ -e $mark && ! -e $(<"$mark") ]] && rm -rf "$(dirname "$mark")"
  done
  return 0
}

configure() {
  local tests=OFF key stamp=$build_folder/shardfuzz-configured old
  old=$(cat "$stamp" 2>/dev/null || true)
  # Tests once asked for stay, so that a test run and a fuzz run can alternate without configuring.
  [[ $package_set != test && $old != *tests ]] || tests=ON
  local args=(-G Ninja "-DCMAKE_BUILD_TYPE=$build_type" "-DSHARDFUZZ_PYTHON=$python"
    "-DSHARDFUZZ_TESTS=$tests")
  [[ $package_set != fuzzers ]] ||
    args+=(-DSHARDFUZZ_FUZZERS=ON "-DSHARDFUZZ_SANITIZERS=$sanitizers")
  key=$(configure_key "${args[@]}")
  [[ $tests == OFF ]] || key+=" tests"
  [[ $old != "$key" || ! -e $build_folder/build.ninja ]] || return 0
  rm -f "$stamp"
  printf '%s\n' "$SHARDFUZZ_SOURCE" >"$build_folder/shardfuzz-source"
  remove_orphaned_builds
  # Seen from its build folder, each clone has its source at the same relative path, so that ccache
  # finds what another clone compiled.
  ln -sfn "$SHARDFUZZ_SOURCE" "$build_folder/source"
  step "configuring $build_folder" "$build_folder/configure.log" \
    cmake -S "$build_folder/source" -B "$build_folder" "${args[@]}"
  printf '%s\n' "$key" >"$stamp"
}

job_count() {
  local cores memory_mib limit
  cores=$(nproc)
  memory_mib=$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)
  limit=$((memory_mib / kJobMemoryMib))
  ((limit >= 1)) || limit=1
  printf '%d' $((cores < limit ? cores : limit))
}

configure_and_build() {
  local target known=() dry
  configure
  for target in "$@"; do
    # Parts may be missing from a build (no torch, no CUDA): the caller sees it by the binary.
    ! ninja -C "$build_folder" -t query "$target" >/dev/null 2>&1 || known+=("$target")
  done
  dry=$(ninja -C "$build_folder" -n "${known[@]}" 2>&1 || true)
  [[ $dry != *"ninja: no work to do."* ]] || return 0
  step "building ${*}" "$build_folder/build.log" \
    ninja -C "$build_folder" -j "${SHARDFUZZ_JOBS:-$(job_count)}" "${known[@]}"
}

# build_targets TARGET...: after prepare; sets and exports what programs and tests ask for.
build_targets() {
  mkdir -p "$build_folder"
  with_lock "$build_folder/lock" configure_and_build "$@"
  local worker=$build_folder/harness/real/shardfuzz_worker
  if [[ -z ${SHARDFUZZ_WORKER:-} && -x $worker ]]; then
    export SHARDFUZZ_WORKER=$worker
  fi
}

# run_program ARGS...: $subcommand of the program; what tools/fuzz, tools/replay, tools/bench are.
# extra_targets: what it needs besides the real target.
extra_targets=()
run_program() {
  prepare run
  build_targets shardfuzz shardfuzz_worker "${extra_targets[@]}"
  local program=$build_folder/tools/shardfuzz
  [[ -x $program ]] || fail "this build has no program shardfuzz: see $build_folder/build.log"
  exec "$program" "$subcommand" "$@"
}

# The help of $subcommand, where it is built already: asking for help installs nothing.
program_help() {
  local mark program
  [[ -n ${subcommand:-} ]] || return 0
  for mark in "$SHARDFUZZ_CACHE"/build-*/shardfuzz-source; do
    program=$(dirname "$mark")/tools/shardfuzz
    if [[ -e $mark && $(<"$mark") == "$SHARDFUZZ_SOURCE" && -x $program ]]; then
      printf '\n'
      "$program" "$subcommand" --help
      return 0
    fi
  done
}
