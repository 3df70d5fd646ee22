// Two patterns that can match the same name. All variants of all patterns are sorted into buckets by skeleton, and only
// within a bucket are numbers compared. In most specs every bucket has one entry.
#include <fmt/format.h>

#include <unordered_map>

#include "compiler/check/declarations.h"
#include "compiler/spec/variant.h"

namespace ucp {
namespace {

constexpr std::size_t kMaxTotalVariants = 200'000;
constexpr std::size_t kMaxCompared = 20'000'000;  // Pairs of names that differ in computed numbers or guards only.

struct Claim {
  const Pattern* pattern;
  const Guards* guards;
  Variant variant;
  bool literal = true;  // No number in it is computed.
};

class AmbiguityFinder {
 public:
  AmbiguityFinder(const Source& source, DiagnosticSink& sink) : source_(source), sink_(sink) {}

  void Add(const Pattern& pattern, const Guards& guards) {
    if (total_ > kMaxTotalVariants || compared_ > kMaxCompared) return;
    std::size_t variants = CountVariants(pattern);
    total_ += variants;
    if (variants > kMaxVariants || total_ > kMaxTotalVariants) {
      ReportTooMany(pattern, variants > kMaxVariants);
      return;
    }
    for (Variant& variant : VariantsOf(pattern, source_)) {
      Claim claim{&pattern, &guards, std::move(variant)};
      for (const NumberSlot& slot : claim.variant.slots) claim.literal = claim.literal && slot.literal;
      if (const Claim* other = FindOther(claim)) {
        Report(claim, *other);
        return;
      }
      Keep(std::move(claim));
    }
    if (compared_ > kMaxCompared) ReportTooAlike(pattern);
  }

 private:
  struct Bucket {
    // By their text, so that a spec without captures stays linear. Those of one text exclude each other.
    std::unordered_map<std::string, std::vector<Claim>> literal;
    std::vector<Claim> computed;
  };

  const Claim* FindOther(const Claim& claim) {
    Bucket& bucket = buckets_[claim.variant.skeleton];
    if (claim.literal) {
      auto found = bucket.literal.find(claim.variant.shown);
      if (found != bucket.literal.end()) {
        if (const Claim* other = FindAmong(found->second, claim)) return other;
      }
    } else {
      for (const auto& [text, others] : bucket.literal) {
        if (const Claim* other = FindAmong(others, claim)) return other;
      }
    }
    return FindAmong(bucket.computed, claim);
  }

  const Claim* FindAmong(const std::vector<Claim>& others, const Claim& claim) {
    for (const Claim& other : others) {
      ++compared_;
      if (CanMeet(claim.variant, other.variant) && !ExcludeEachOther(*claim.guards, *other.guards)) return &other;
    }
    return nullptr;
  }

  void Keep(Claim claim) {
    Bucket& bucket = buckets_[claim.variant.skeleton];
    if (claim.literal) {
      bucket.literal[claim.variant.shown].push_back(std::move(claim));
    } else {
      bucket.computed.push_back(std::move(claim));
    }
  }

  void Report(const Claim& claim, const Claim& other) {
    bool same_pattern = claim.pattern == other.pattern;
    bool same_text = claim.variant.shown == other.variant.shown;
    std::string message =
        same_pattern ? fmt::format("this pattern can give one name twice, as `{}` and as `{}`", other.variant.shown,
                                   claim.variant.shown)
        : same_text  ? fmt::format("a second pattern gives the name `{}`", claim.variant.shown)
                     : fmt::format("`{}` can match the same name as `{}`", claim.variant.shown, other.variant.shown);
    std::vector<Note> notes;
    if (!same_pattern) notes.push_back({other.pattern->range, "the other pattern"});
    sink_.Report({.kind = DiagnosticKind::kAmbiguousPatterns,
                  .place = claim.pattern->range,
                  .message = std::move(message),
                  .notes = std::move(notes),
                  .hint = claim.guards->empty() && other.guards->empty()
                              ? ""
                              : "the branches of one `when` may give the same names: write the second behind `else`"});
  }

  void ReportTooMany(const Pattern& pattern, bool alone) {
    sink_.Report({.kind = DiagnosticKind::kTooManyNames,
                  .place = pattern.range,
                  .message = alone ? fmt::format("the alternatives of this name, with those of its blocks, make more "
                                                 "than {} names",
                                                 kMaxVariants)
                                   : fmt::format("the names of this spec, counters aside, are more than {}",
                                                 kMaxTotalVariants)});
  }

  void ReportTooAlike(const Pattern& pattern) {
    sink_.Report({.kind = DiagnosticKind::kTooManyNames,
                  .place = pattern.range,
                  .message = "too many names of this spec differ in their numbers and conditions only"});
  }

  const Source& source_;
  DiagnosticSink& sink_;
  std::size_t total_ = 0;
  std::size_t compared_ = 0;
  std::unordered_map<std::string, Bucket> buckets_;
};

}  // namespace

void CheckAmbiguity(const CheckedSpec& spec, DiagnosticSink& sink) {
  AmbiguityFinder finder(*spec.source, sink);
  for (const TensorDeclaration& tensor : spec.tensors) finder.Add(tensor.name, tensor.guards);
  for (const TieDeclaration& tie : spec.ties) finder.Add(tie.second, tie.guards);
  for (const DropDeclaration& drop : spec.drops) finder.Add(drop.name, drop.guards);
}

}  // namespace ucp
