#include "compiler/spec/variant.h"

namespace ucp {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Grows a variant from left to right.
class VariantBuilder {
 public:
  void AddText(std::string_view text) {
    variant_.shown += text;
    for (char c : text) {
      if (IsDigit(c)) {
        AddDigit(c);
      } else {
        variant_.skeleton += c;
        in_number_ = false;
      }
    }
  }

  void AddNumber(NumberSlot number, std::string_view shown) {
    variant_.shown += shown;
    if (in_number_) {
      variant_.slots.back() = {};  // It continues digits: nothing is known.
    } else {
      variant_.slots.push_back(std::move(number));
      variant_.skeleton += kNumberMark;
    }
    in_number_ = true;
    literal_ = false;
  }

  Variant Finish() && {
    for (NumberSlot& slot : variant_.slots) {
      if (slot.literal) slot.range = RangeOf(*slot.literal);
    }
    return std::move(variant_);
  }

 private:
  void AddDigit(char digit) {
    if (!in_number_) {
      variant_.slots.push_back({std::string(1, digit), {}, false, {}});
      variant_.skeleton += kNumberMark;
      literal_ = true;
    } else if (literal_) {
      *variant_.slots.back().literal += digit;
    } else {
      variant_.slots.back() = {};
    }
    in_number_ = true;
  }

  Variant variant_;
  bool in_number_ = false;
  bool literal_ = false;  // The number so far is literal text.
};

Variant BuildVariant(const Pattern& pattern, const Source& source, std::size_t choice) {
  std::vector<std::size_t> chosen(pattern.pieces.size(), 0);
  for (std::size_t i = pattern.pieces.size(); i-- > 0;) {
    if (pattern.pieces[i].kind != PatternPiece::Kind::kAlternatives) continue;
    chosen[i] = choice % pattern.pieces[i].options.size();
    choice /= pattern.pieces[i].options.size();
  }
  VariantBuilder builder;
  for (std::size_t i = 0; i < pattern.pieces.size(); ++i) {
    const PatternPiece& piece = pattern.pieces[i];
    if (piece.kind == PatternPiece::Kind::kNumber) {
      NumberSlot slot{.literal = {}, .range = RangeOf(piece, pattern.counters), .counter = {}};
      if (piece.counts) {
        slot.local = pattern.counters[piece.counter].local;
        slot.counter = piece.counter;
      }
      builder.AddNumber(std::move(slot), source.TextOf(piece.range));
    } else {
      builder.AddText(piece.options[chosen[i]]);
    }
  }
  return std::move(builder).Finish();
}

}  // namespace

std::size_t CountVariants(const Pattern& pattern) {
  std::size_t count = 1;
  for (const PatternPiece& piece : pattern.pieces) {
    if (piece.kind == PatternPiece::Kind::kAlternatives) count *= piece.options.size();
    if (count > kMaxVariants) return kMaxVariants + 1;
  }
  return count;
}

std::vector<Variant> VariantsOf(const Pattern& pattern, const Source& source) {
  std::vector<Variant> variants;
  std::size_t count = CountVariants(pattern);
  for (std::size_t choice = 0; choice < count; ++choice) variants.push_back(BuildVariant(pattern, source, choice));
  return variants;
}

std::string SkeletonOf(std::string_view name) {
  VariantBuilder builder;
  builder.AddText(name);
  return std::move(builder).Finish().skeleton;
}

bool CanMeet(const Variant& a, const Variant& b) {
  if (a.skeleton != b.skeleton) return false;
  for (std::size_t i = 0; i < a.slots.size(); ++i) {
    const NumberSlot& left = a.slots[i];
    const NumberSlot& right = b.slots[i];
    if (left.literal && right.literal && *left.literal != *right.literal) return false;
    if (NeverMeet(left.range, right.range)) return false;
  }
  return true;
}

bool FitsLiterals(std::string_view name, const Variant& variant) {
  VariantBuilder builder;
  builder.AddText(name);
  Variant literal = std::move(builder).Finish();
  if (literal.skeleton != variant.skeleton) return false;
  for (std::size_t i = 0; i < literal.slots.size(); ++i) {
    if (variant.slots[i].literal && *variant.slots[i].literal != *literal.slots[i].literal) return false;
  }
  return true;
}

}  // namespace ucp
