// `include "common.ucp"`: other files' declarations and items, put where the include stands.
//
// As a declaration it takes all declarations of the file. Among items it takes the items of the file's one layout, and
// the file declares nothing else. An included file is a spec by itself and begins with `ucp 1`. Its path is relative to
// the including file and never leaves the folder of the main spec, neither by `..` nor by a symbolic link.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "compiler/ast/ast.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/source/source.h"

namespace ucp {

inline constexpr std::size_t kMaxIncludeDepth = 8;
inline constexpr std::size_t kMaxIncludes = 64;  // In all. A file that is included twice counts twice.

// Files that can be included, by their paths from the folder of the spec.
using IncludableTexts = std::map<std::string, std::string>;

// Returns the tree of the spec with all that it includes, as ParseSoundItems() has it; nothing after reporting if an
// include is wrong. `source` is a file on disk, and the files that it includes are appended to it. With `texts`,
// nothing is on disk: these are all files that there are, and `source` stands in their folder.
std::optional<ast::File> ParseWithIncludes(Source& source, DiagnosticSink& sink,
                                           const IncludableTexts* texts = nullptr);

}  // namespace ucp
