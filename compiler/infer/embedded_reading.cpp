// The order is DeepSpeed's own (ds_to_universal.py): affine maps, replicated, averaged, two parts, sub-parameters, row
// parallel, vocabulary, and then, without a word, concatenation along dimension 0. That last step is not taken here.
#include "compiler/infer/embedded_reading.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <re2/re2.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "compiler/infer/lift.h"
#include "compiler/infer/lift_map.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

// The patterns of one kind. Most are one whole name, escaped: those are looked up, so that a model of thousands of
// parameters, each with a pattern of its own, takes no longer than its names.
class PatternList {
 public:
  // The texts must outlive the list.
  static llvm::Expected<PatternList> Make(std::vector<std::string_view> patterns, const std::string& where) {
    PatternList list;
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      if (auto name = WholeName(patterns[i])) {
        list.whole_names_.emplace(std::move(*name), i);
        continue;
      }
      re2::RE2::Options options(re2::RE2::Quiet);
      options.set_max_mem(std::int64_t{1} << 20);
      auto regex = std::make_unique<const re2::RE2>(re2::StringPiece(patterns[i].data(), patterns[i].size()), options);
      if (!regex->ok()) {
        return Fail(ErrorCode::kUnsupported,
                    "the pattern `{}` of `universal_checkpoint_info` in {} is not a valid regular expression (RE2): {}",
                    patterns[i], where, regex->error());
      }
      list.regexes_.emplace_back(i, std::move(regex));
    }
    list.patterns_ = std::move(patterns);
    return list;
  }

  // All that match at the start of `name`.
  std::vector<std::size_t> Matches(const std::string& name) const {
    std::vector<std::size_t> matches;
    auto [first, last] = whole_names_.equal_range(name);
    for (auto entry = first; entry != last; ++entry) matches.push_back(entry->second);
    for (const auto& [index, regex] : regexes_) {
      if (regex->Match(name, 0, name.size(), re2::RE2::ANCHOR_START, nullptr, 0)) matches.push_back(index);
    }
    return matches;
  }

  // The one that matches. As in DeepSpeed, two are an error.
  llvm::Expected<std::optional<std::size_t>> Match(const std::string& name) const {
    std::vector<std::size_t> matches = Matches(name);
    if (matches.empty()) return std::nullopt;
    if (matches.size() == 1) return matches.front();
    return Fail(ErrorCode::kBadData, "the patterns `{}` and `{}` of the checkpoint's metadata both match `{}`",
                patterns_[matches[0]], patterns_[matches[1]], name);
  }

 private:
  // "^model\.norm\.weight$" is model.norm.weight.
  static std::optional<std::string> WholeName(std::string_view pattern) {
    if (!pattern.starts_with('^') || !pattern.ends_with('$')) return std::nullopt;
    std::string name(pattern.size(), '\0');
    std::size_t length = 0;
    for (std::size_t i = 1; i + 1 < pattern.size(); ++i) {
      char c = pattern[i];
      bool escaped = c == '\\' && i + 2 < pattern.size();
      if (escaped) c = pattern[++i];
      bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
      if (escaped == word) return std::nullopt;  // \d is a class, and a bare dot matches anything.
      name[length++] = c;
    }
    name.resize(length);
    return name;
  }

  std::vector<std::string_view> patterns_;
  std::unordered_multimap<std::string, std::size_t> whole_names_;
  std::vector<std::pair<std::size_t, std::unique_ptr<const re2::RE2>>> regexes_;
};

}  // namespace

struct EmbeddedReader::Patterns {
  const EmbeddedLayout& embedded;
  std::int64_t vocabulary_grain;
  PatternList replicated, averaged, two_parts, row_parallel, vocabulary, maps, unsupported;
  std::vector<PatternList> sub_parameters;

  llvm::Error CompileAll() {
    const std::string& where = embedded.where;
    auto texts = [](const std::vector<std::string>& patterns) {
      return std::vector<std::string_view>(patterns.begin(), patterns.end());
    };
    UCP_ASSIGN_OR_RETURN(replicated, PatternList::Make(texts(embedded.replicated), where));
    UCP_ASSIGN_OR_RETURN(averaged, PatternList::Make(texts(embedded.averaged), where));
    UCP_ASSIGN_OR_RETURN(two_parts, PatternList::Make(texts(embedded.two_parts), where));
    UCP_ASSIGN_OR_RETURN(row_parallel, PatternList::Make(texts(embedded.row_parallel), where));
    UCP_ASSIGN_OR_RETURN(vocabulary, PatternList::Make(texts(embedded.vocabulary), where));
    std::vector<std::string_view> patterns;
    for (const auto& [pattern, map] : embedded.maps) patterns.push_back(pattern);
    UCP_ASSIGN_OR_RETURN(maps, PatternList::Make(patterns, where));
    patterns.clear();
    for (const auto& [pattern, reason] : embedded.unsupported) patterns.push_back(pattern);
    UCP_ASSIGN_OR_RETURN(unsupported, PatternList::Make(patterns, where));
    for (const SubParameters& parameters : embedded.sub_parameters) {
      UCP_ASSIGN_OR_RETURN(PatternList list, PatternList::Make({parameters.pattern}, where));
      sub_parameters.push_back(std::move(list));
    }
    return llvm::Error::success();
  }

  // The two below ask the patterns in DeepSpeed's order, those of maps apart. Nothing if none matches.
  llvm::Expected<std::optional<Reading>> ReadUncut(const ObservedTensor& tensor) const;
  llvm::Expected<std::optional<Reading>> ReadCut(const ObservedTensor& tensor, Decision& decision) const;
};

EmbeddedReader::EmbeddedReader(std::unique_ptr<Patterns> patterns) : patterns_(std::move(patterns)) {}
EmbeddedReader::EmbeddedReader(EmbeddedReader&&) noexcept = default;
EmbeddedReader& EmbeddedReader::operator=(EmbeddedReader&&) noexcept = default;
EmbeddedReader::~EmbeddedReader() = default;

llvm::Expected<std::optional<EmbeddedReader>> EmbeddedReader::Make(const EmbeddedLayout* embedded,
                                                                   std::int64_t vocabulary_grain) {
  if (embedded == nullptr) return std::nullopt;
  auto patterns = std::make_unique<Patterns>(Patterns{*embedded, vocabulary_grain, {}, {}, {}, {}, {}, {}, {}, {}});
  UCP_RETURN_IF_ERROR(patterns->CompileAll());
  return EmbeddedReader(std::move(patterns));
}

namespace {

llvm::Expected<Reading> CutAlong(const ObservedTensor& tensor, std::size_t dim, const std::string& pattern) {
  if (dim >= tensor.by_rank.front().size()) {
    return Fail(ErrorCode::kBadData,
                "the pattern `{}` of the checkpoint's metadata cuts dimension {} of `{}`, which has {}", pattern, dim,
                tensor.name, tensor.by_rank.front().size());
  }
  return CutReading(tensor.by_rank, dim);
}

// Each rank holds its piece of every part, so its own length is the sum of its widths.
llvm::Expected<Reading> CutParts(const ObservedTensor& tensor, std::size_t dim,
                                 const std::vector<std::vector<std::int64_t>>& widths, const std::string& pattern) {
  UCP_ASSIGN_OR_RETURN(Reading reading, CutAlong(tensor, dim, pattern));
  std::vector<ShapeExpr> parts;
  std::vector<std::int64_t> here = WidthsAlong(tensor.by_rank, dim);
  for (std::size_t rank = 0; rank < here.size(); ++rank) {
    std::int64_t sum = 0;
    for (const std::vector<std::int64_t>& part : widths) sum += rank < part.size() ? part[rank] : 0;
    if (sum == here[rank]) continue;
    return Fail(ErrorCode::kBadData,
                "the metadata for `{}` gives rank {} of `{}` {} places along dimension {}, and it has {}", pattern,
                rank, tensor.name, sum, dim, here[rank]);
  }
  bool equal = true;
  for (const std::vector<std::int64_t>& part : widths) {
    equal = equal && part == widths.front();
    parts.push_back(LiftWidths(part, kCutAxis));
  }
  std::int64_t count = static_cast<std::int64_t>(parts.size());
  if (count == 1) {
    reading.dims[dim] = std::move(parts.front());
  } else if (equal) {
    reading.dims[dim] = ShapeExpr::Product({ShapeExpr::Length(count), std::move(parts.front())});
  } else {
    reading.dims[dim] = ShapeExpr::Sum(std::move(parts));
  }
  return reading;
}

// Equal parts, each cut evenly: what metadata before version 0.4 means.
llvm::Expected<Reading> CutEqualParts(const ObservedTensor& tensor, std::size_t dim, std::int64_t count,
                                      const std::string& pattern) {
  std::vector<std::int64_t> each;
  for (std::int64_t width :
       dim < tensor.by_rank.front().size() ? WidthsAlong(tensor.by_rank, dim) : std::vector<std::int64_t>{}) {
    if (count <= 0 || width % count != 0) {
      return Fail(ErrorCode::kBadData,
                  "the metadata for `{}` says that dimension {} of `{}` is {} equal parts, and a "
                  "rank has {} places of it",
                  pattern, dim, tensor.name, count, width);
    }
    each.push_back(width / count);
  }
  return CutParts(
      tensor, dim,
      std::vector<std::vector<std::int64_t>>(static_cast<std::size_t>(std::max<std::int64_t>(count, 1)), each),
      pattern);
}

// From version 0.4 on, widths are recorded.
constexpr double kVersionWithWidths = 0.4;

llvm::Expected<Reading> ReadSubParameters(const EmbeddedLayout& embedded, const SubParameters& parameters,
                                          const ObservedTensor& tensor) {
  const std::string& pattern = parameters.pattern;
  if (parameters.dimension < 0) {
    return Fail(ErrorCode::kBadData, "the metadata for `{}` cuts dimension {}", pattern, parameters.dimension);
  }
  std::size_t dim = static_cast<std::size_t>(parameters.dimension);
  if (!parameters.widths.empty()) return CutParts(tensor, dim, parameters.widths, pattern);
  if (embedded.version >= kVersionWithWidths) {
    return Fail(
        ErrorCode::kBadData,
        "the metadata for `{}` is of version {} and has no entry in `sub_param_shard_widths`: how its parts are "
        "cut is not recorded",
        pattern, embedded.version);
  }
  if (parameters.sizes.empty()) return CutEqualParts(tensor, dim, parameters.equal_parts, pattern);
  std::int64_t ranks = static_cast<std::int64_t>(tensor.by_rank.size());
  std::vector<std::vector<std::int64_t>> widths;
  for (std::int64_t size : parameters.sizes) {
    if (size % ranks != 0) {
      return Fail(ErrorCode::kUnsupported,
                  "the metadata for `{}` has a part of {} places over {} ranks, and no widths: "
                  "how it was cut is not recorded",
                  pattern, size, ranks);
    }
    widths.emplace_back(tensor.by_rank.size(), size / ranks);
  }
  return CutParts(tensor, dim, widths, pattern);
}

bool PadsTo(std::int64_t vocabulary, std::int64_t grain, std::int64_t ranks, std::int64_t total) {
  auto multiple = CheckedMultiply(grain, ranks);
  return multiple && *multiple > 0 && CeilDivide(vocabulary, *multiple) * *multiple == total;
}

// `grain` is what the training script's arguments say; where it does not fit, the largest usual one that does.
Reading ReadVocabulary(Reading cut, std::int64_t vocabulary, std::int64_t grain, std::int64_t ranks,
                       Decision& decision) {
  const ShapeExpr& plain = cut.dims.front();
  if (plain.kind != ShapeExpr::Kind::kCut || plain.rule != CutRule::kEven) return cut;
  std::int64_t total = plain.operands.front().number;
  if (vocabulary <= 0 || vocabulary >= total) return cut;
  if (grain == 0 || !PadsTo(vocabulary, grain, ranks, total)) {
    decision.question = fmt::format(
        "{} of {} places are padding, and the metadata does not say what {} is padded to a multiple of; that decides "
        "how much padding another degree has",
        total - vocabulary, total, vocabulary);
    grain = total / ranks;
    for (std::int64_t usual : {1, 8, 16, 32, 64, 128}) {
      if (PadsTo(vocabulary, usual, ranks, total)) grain = usual;
    }
  }
  cut.dims.front() = ShapeExpr::Cut(ShapeExpr::Pad(ShapeExpr::Length(vocabulary), grain * ranks), {kCutAxis});
  return cut;
}

}  // namespace

llvm::Expected<std::optional<Reading>> EmbeddedReader::Patterns::ReadUncut(const ObservedTensor& tensor) const {
  UCP_ASSIGN_OR_RETURN(std::optional<std::size_t> match, replicated.Match(tensor.name));
  if (match) return WholeReading(tensor.by_rank.front());
  UCP_ASSIGN_OR_RETURN(match, averaged.Match(tensor.name));
  if (!match) return std::nullopt;
  Reading reading = WholeReading(tensor.by_rank.front());
  reading.mean = true;
  return reading;
}

llvm::Expected<std::optional<Reading>> EmbeddedReader::Patterns::ReadCut(const ObservedTensor& tensor,
                                                                         Decision& decision) const {
  UCP_ASSIGN_OR_RETURN(std::optional<std::size_t> match, two_parts.Match(tensor.name));
  if (match) return CutEqualParts(tensor, 0, 2, embedded.two_parts[*match]);
  for (std::size_t i = 0; i < sub_parameters.size(); ++i) {  // The first that matches.
    UCP_ASSIGN_OR_RETURN(match, sub_parameters[i].Match(tensor.name));
    if (match) return ReadSubParameters(embedded, embedded.sub_parameters[i], tensor);
  }
  UCP_ASSIGN_OR_RETURN(match, row_parallel.Match(tensor.name));
  if (match) return CutAlong(tensor, 1, embedded.row_parallel[*match]);
  UCP_ASSIGN_OR_RETURN(match, vocabulary.Match(tensor.name));
  if (!match) return std::nullopt;
  UCP_ASSIGN_OR_RETURN(Reading reading, CutAlong(tensor, 0, embedded.vocabulary[*match]));
  return ReadVocabulary(std::move(reading), embedded.original_vocabulary, vocabulary_grain,
                        static_cast<std::int64_t>(tensor.by_rank.size()), decision);
}

llvm::Expected<std::optional<Decision>> EmbeddedReader::Read(const ObservedTensor& tensor) const {
  const Patterns& p = *patterns_;
  Decision decision{&tensor, {}, ""};
  auto decide = [&](Reading reading) {
    decision.readings.push_back(std::move(reading));
    return std::optional<Decision>(std::move(decision));
  };
  UCP_ASSIGN_OR_RETURN(std::optional<std::size_t> match, p.maps.Match(tensor.name));
  if (match) {
    decision.by_map = true;
    UCP_ASSIGN_OR_RETURN(Reading reading, LiftMap(p.embedded.maps[*match].second, tensor));
    return decide(std::move(reading));
  }
  UCP_ASSIGN_OR_RETURN(std::optional<Reading> reading, p.ReadUncut(tensor));
  if (!reading) {
    UCP_ASSIGN_OR_RETURN(reading, p.ReadCut(tensor, decision));
  }
  if (reading) return decide(std::move(*reading));
  if (tensor.by_rank.front().empty()) return decide(WholeReading({}));
  return std::nullopt;
}

std::string EmbeddedReader::WhyUnsupported(const std::string& name) const {
  std::vector<std::size_t> matches = patterns_->unsupported.Matches(name);
  return matches.empty() ? "" : patterns_->embedded.unsupported[matches.front()].second;
}

}  // namespace ucp
