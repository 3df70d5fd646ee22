// A golden file: a spec that carries what the compiler must say about it, as comments.
//
//   // One sentence about what this case shows.
//   // phase: parse
//   ucp 1
//   // error: 6..11: expected a name, found `model`, which is a word of the language [reserved-word]
//   dim model
//
//   // output:
//   // (what the phase prints)
//
// Expectations stand just above the line they point at: `error` or `warning` with the underlined columns, then its
// notes (with the text they point at) and its hint. The compiler sees the file without them. Words behind the name of
// the phase are its arguments.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/source/source.h"

namespace ucp::golden {

struct GoldenCase {
  std::string path;
  std::string text;       // The file as it is.
  std::string spec;       // Without expectations and output: what the compiler sees.
  std::string phase;      // "parse"
  std::string arguments;  // The words behind it.
};

// Refuses a file without its first sentence or without a phase.
llvm::Expected<GoldenCase> ReadGoldenCase(const std::string& path);

// `spec` with the expectations that `sink` and `output` make true. A golden file is right if this is its text.
std::string WriteExpectations(const Source& spec, const DiagnosticSink& sink, const std::string& output);

}  // namespace ucp::golden
