// Two patterns that can match the same name. All variants of all patterns are sorted into buckets by skeleton, and only
// within a bucket are numbers compared. In most specs every bucket has one entry.
#include <fmt/format.h>

#include <unordered_map>

#include "compiler/check/declarations.h"
#include "compiler/check/variant.h"

namespace ucp {
namespace {

constexpr std::size_t kMaxTotalVariants = 200'000;

struct Claim {
  const Pattern* pattern;
  Variant variant;
  bool literal = true;  // No number in it is computed.
};

class AmbiguityFinder {
 public:
  AmbiguityFinder(const Source& source, DiagnosticSink& sink) : source_(source), sink_(sink) {}

  void Add(const Pattern& pattern) {
    if (total_ > kMaxTotalVariants) return;
    std::size_t variants = CountVariants(pattern);
    total_ += variants;
    if (variants > kMaxVariants || total_ > kMaxTotalVariants) {
      ReportTooMany(pattern, variants > kMaxVariants);
      return;
    }
    for (Variant& variant : VariantsOf(pattern, source_)) {
      Claim claim{&pattern, std::move(variant)};
      for (const NumberSlot& slot : claim.variant.slots) claim.literal = claim.literal && slot.literal;
      if (const Claim* other = FindOther(claim)) {
        Report(claim, *other);
        return;
      }
      Keep(std::move(claim));
    }
  }

 private:
  struct Bucket {
    std::unordered_map<std::string, Claim> literal;  // By their text, so that a spec without captures stays linear.
    std::vector<Claim> computed;
  };

  const Claim* FindOther(const Claim& claim) {
    Bucket& bucket = buckets_[claim.variant.skeleton];
    if (claim.literal) {
      auto found = bucket.literal.find(claim.variant.shown);
      if (found != bucket.literal.end()) return &found->second;
    } else {
      for (const auto& [text, other] : bucket.literal) {
        if (CanMeet(claim.variant, other.variant)) return &other;
      }
    }
    for (const Claim& other : bucket.computed) {
      if (CanMeet(claim.variant, other.variant)) return &other;
    }
    return nullptr;
  }

  void Keep(Claim claim) {
    Bucket& bucket = buckets_[claim.variant.skeleton];
    if (claim.literal) {
      std::string text = claim.variant.shown;
      bucket.literal.emplace(std::move(text), std::move(claim));
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
                  .notes = std::move(notes)});
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

  const Source& source_;
  DiagnosticSink& sink_;
  std::size_t total_ = 0;
  std::unordered_map<std::string, Bucket> buckets_;
};

}  // namespace

void CheckAmbiguity(const CheckedSpec& spec, DiagnosticSink& sink) {
  AmbiguityFinder finder(*spec.source, sink);
  for (const TensorDeclaration& tensor : spec.tensors) finder.Add(tensor.name);
  for (const TieDeclaration& tie : spec.ties) finder.Add(tie.second);
  for (const Pattern& drop : spec.drops) finder.Add(drop);
}

}  // namespace ucp
