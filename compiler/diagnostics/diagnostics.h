// Messages of the compiler to the author of a spec: kinds, diagnostics, and the sink that collects them.
//
// A message begins in lower case, has no full stop, and puts code in backticks. It says what was seen; the notes say
// where each number in it came from; the hint, if any, says what to write instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/source/source.h"

namespace ucp {

enum class Severity : std::uint8_t { kError, kWarning };

// One for each line of kinds.def.
enum class DiagnosticKind : std::uint8_t {
#define UCP_DIAGNOSTIC(enumerator, name, severity, summary) enumerator,
#include "compiler/diagnostics/kinds.def"
#undef UCP_DIAGNOSTIC
};

struct DiagnosticKindInfo {
  DiagnosticKind kind;
  std::string_view name;  // "unexpected-token": stable, stands in brackets behind every message.
  Severity severity;
  std::string_view summary;
};

// Returns all kinds in the order of kinds.def, so that the enumerator is the index.
std::span<const DiagnosticKindInfo> AllDiagnosticKinds();
const DiagnosticKindInfo& Describe(DiagnosticKind kind);

// Where something stands: in the spec, or in words when it is elsewhere, such as a checkpoint file or the command line.
struct Place {
  SourceRange range;
  std::string elsewhere;  // "mp_rank_00_model_states.pt"; empty for a place in the spec.

  Place() = default;
  Place(SourceRange in_spec) : range(in_spec) {}  // NOLINT(google-explicit-constructor): most places are ranges.
  static Place Elsewhere(std::string where);

  bool in_spec() const { return elsewhere.empty(); }
  auto operator<=>(const Place&) const = default;
};

struct Note {
  Place place;
  std::string message;

  auto operator<=>(const Note&) const = default;
};

// sink.Report({.kind = DiagnosticKind::kUnevenCut, .place = cut.range, .message = fmt::format(...), .notes = {...}});
struct Diagnostic {
  DiagnosticKind kind = DiagnosticKind::kUnexpectedToken;
  Place place;  // The narrowest wrong piece.
  std::string message;
  std::vector<Note> notes = {};
  std::string hint = {};  // Lines, without the word "hint".

  Severity severity() const { return Describe(kind).severity; }
  bool operator==(const Diagnostic&) const = default;
};

// Collects the diagnostics of one run of the compiler. Not for use by several threads at once.
class DiagnosticSink {
 public:
  // More than this many are counted and not kept, so that a hostile spec cannot fill the memory.
  static constexpr std::size_t kMaxKept = 1000;

  void Report(Diagnostic diagnostic);

  bool has_errors() const { return error_count_ != 0; }
  std::size_t error_count() const { return error_count_; }
  std::size_t dropped_count() const { return dropped_count_; }

  // Returns the diagnostics by place (places elsewhere come last, in the order of their report), each once.
  std::vector<Diagnostic> Sorted() const;

 private:
  std::vector<Diagnostic> diagnostics_;
  std::size_t error_count_ = 0;
  std::size_t dropped_count_ = 0;
};

}  // namespace ucp
