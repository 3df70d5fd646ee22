// Diagnostics as people and as programs read them.
#pragma once

#include <llvm/Support/JSON.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/source/source.h"

namespace ucp {

struct TextStyle {
  bool colours = false;
  bool errors_alone = false;  // No warnings.
  std::size_t columns = 120;  // Source lines are cut to this, around the piece that is underlined.
};

// `error:`, `warning:`, `note:` or `hint:`, as each is painted; any other word is bold.
std::string Painted(std::string_view word, const TextStyle& style);

// spec.ucp:7:12: error: `ffn` is 16 and does not divide over 3 ranks of `tp` [uneven-cut]
//   "mlp.weight" [ffn@tp, hidden]
//                 ~~~^~~
// spec.ucp:3:5: note: `ffn` was computed here
// hint: ...
std::string RenderText(const Source& source, const Diagnostic& diagnostic, const TextStyle& style = {});

// Returns the text of all diagnostics, sorted, and a line about those that were too many to keep. It is empty if there
// are none.
std::string RenderText(const Source& source, const DiagnosticSink& sink, const TextStyle& style = {});

// {"file": "spec.ucp", "diagnostics": [{
//    "kind": "uneven-cut", "severity": "error", "message": "...", "place": PLACE,
//    "notes": [{"message": "...", "place": PLACE}], "hint": "..."}],
//  "dropped": 0}
// PLACE is {"file": "spec.ucp", "begin": BYTE, "end": BYTE, "line": 7, "column": 12, "end_line": 7, "end_column": 18},
// half-open, where the file may be one that the spec includes, or {"elsewhere": "mp_rank_00_model_states.pt"}. `hint`
// is absent if there is none.
llvm::json::Object RenderJson(const Source& source, const DiagnosticSink& sink);

}  // namespace ucp
