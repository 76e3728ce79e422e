#include "harness/case/form.h"

#include "harness/case/case_json.h"

namespace shardfuzz {

std::string form_text(Case c) {
  c.name.clear();
  c.origin = {};
  c.seed = 0;
  c.schedule.seed = 0;
  c.environment = {};
  c.expect = {};
  c.predicate.clear();
  return canonical_text(c);
}

}  // namespace shardfuzz
