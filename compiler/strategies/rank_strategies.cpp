// Every product of stages, tensor-parallel and data-parallel ranks is laid out as a conversion would do it, so that
// whatever a conversion refuses is refused here, in the same words. Nothing is planned: the bytes of the target's files
// are known before it is known where they come from.
#include "compiler/strategies/rank_strategies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "compiler/compile/format_target.h"
#include "compiler/describe/bound_source.h"
#include "compiler/formats/strategy.h"
#include "compiler/formats/strategy_rules.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"
#include "compiler/support/units.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

constexpr std::string_view kGpus = "gpus";

struct RanksOfStrategy {
  std::int64_t pp = 1;
  std::int64_t tp = 1;
  std::int64_t dp = 1;
};

// `zero` is empty where the source says it.
std::string TextOf(const RanksOfStrategy& ranks, std::string_view zero) {
  return fmt::format("deepspeed:{}{}dp={}{}", ranks.pp > 1 ? fmt::format("pp={},", ranks.pp) : "",
                     ranks.tp > 1 ? fmt::format("tp={},", ranks.tp) : "", ranks.dp,
                     zero.empty() ? "" : fmt::format(",zero={}", zero));
}

std::vector<std::int64_t> DivisorsOf(std::int64_t number) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t divisor = 1; divisor <= number; ++divisor) {
    if (number % divisor == 0) divisors.push_back(divisor);
  }
  return divisors;
}

// The bytes of tensors: all, and those in the files that one rank reads.
RankedStrategy Measure(std::string strategy, const TargetFiles& target) {
  RankedStrategy measured{std::move(strategy), 0, 0};
  std::vector<std::uint64_t> of_file(target.storage.files.size()),
      of_rank(static_cast<std::size_t>(std::max(target.readers.ranks, 1)));
  for (const Record& record : target.storage.records) of_file[record.file.index()] += record.bytes;
  for (std::size_t file = 0; file < of_file.size(); ++file) {
    measured.bytes_to_write += of_file[file];
    const std::vector<int>& readers = target.readers.Of(FileId(file));
    if (readers.empty()) std::ranges::for_each(of_rank, [&](std::uint64_t& bytes) { bytes += of_file[file]; });
    for (const int rank : readers) of_rank[static_cast<std::size_t>(rank)] += of_file[file];
  }
  measured.bytes_of_rank = *std::ranges::max_element(of_rank);
  return measured;
}

// The first error of a spec says more than how many there are.
std::string ReasonOf(llvm::Error error, const OpenedSpec& spec) {
  const FailureText failure = TakeFailure(std::move(error));
  if (failure.code != ErrorCode::kSpec || spec == nullptr) return failure.message;
  for (const Diagnostic& diagnostic : spec->sink.Sorted()) {
    if (diagnostic.severity() == Severity::kError) return diagnostic.message;
  }
  return failure.message;
}

class Ranking {
 public:
  Ranking(ReadableFileSystem& files, const CompileRequest& request, const Described& described)
      : files_(files), request_(request), described_(described) {}

  llvm::Error Add(const RanksOfStrategy& ranks) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    std::string reason;
    const bool is_allowed = Try(ranks, "", reason);
    for (const char* zero : {"1", "2", "3"}) {
      std::string of_stage;
      if (!Try(ranks, zero, of_stage) && *zero == '1' && !is_allowed) return Refuse(ranks, of_stage);
    }
    return llvm::Error::success();
  }

  // Takes the strategy that changes least.
  RankedStrategies Finish() {
    const Mesh& source = described_.checkpoint.inventory.mesh;
    const auto change = [&](const Found& found) {
      const bool says_stage = found.zero.empty();
      return std::tuple(found.ranks.tp != source.Size("tp"), found.ranks.pp != source.Size("pp"), !says_stage,
                        found.zero, found.measured.bytes_of_rank);
    };
    std::ranges::sort(found_, [](const Found& a, const Found& b) {
      return std::tie(a.measured.bytes_of_rank, a.measured.bytes_to_write, a.measured.strategy) <
             std::tie(b.measured.bytes_of_rank, b.measured.bytes_to_write, b.measured.strategy);
    });
    RankedStrategies ranked;
    const auto least = std::ranges::min_element(found_, {}, change);
    ranked.taken = static_cast<std::size_t>(least - found_.begin());
    for (Found& found : found_) ranked.allowed.push_back(std::move(found.measured));
    ranked.refused = std::move(refused_);
    return ranked;
  }

 private:
  struct Found {
    RanksOfStrategy ranks;
    std::string zero;
    RankedStrategy measured;
  };

  llvm::Error Refuse(const RanksOfStrategy& ranks, const std::string& reason) {
    refused_.push_back(fmt::format("{}: {}", TextOf(ranks, ""), reason));
    return llvm::Error::success();
  }

  bool Try(const RanksOfStrategy& ranks, const std::string& zero, std::string& reason) {
    const std::string text = TextOf(ranks, zero);
    OpenedSpec spec;
    llvm::Expected<RankedStrategy> measured = LayOut(ranks, text, spec);
    if (!measured) {
      reason = ReasonOf(measured.takeError(), spec);
      return false;
    }
    found_.push_back({ranks, zero, std::move(*measured)});
    return true;
  }

  llvm::Expected<RankedStrategy> LayOut(const RanksOfStrategy& ranks, const std::string& text, OpenedSpec& spec) {
    CompileRequest request = request_;
    request.target = text;
    request.source.opened = &spec;
    request.source.clock = nullptr;
    if (request.source.spec.empty()) request.source.cut_over = ranks.tp;
    UCP_ASSIGN_OR_RETURN(Strategy strategy, ParseStrategy(text));
    UCP_ASSIGN_OR_RETURN(BoundSource source, BindCheckpoint(files_, request.source, described_));
    FormatTarget target(files_, request, std::move(strategy));
    UCP_ASSIGN_OR_RETURN(const Sides sides, target.Meet(std::move(source)));
    UCP_ASSIGN_OR_RETURN(const TargetFiles laid_out, target.LayOut(sides));
    return Measure(text, laid_out);
  }

  ReadableFileSystem& files_;
  const CompileRequest& request_;
  const Described& described_;
  std::vector<Found> found_;
  std::vector<std::string> refused_;
};

}  // namespace

std::optional<std::int64_t> GpusOf(const std::string& target) {
  if (!target.ends_with(kGpus)) return std::nullopt;
  return ParseCount(std::string_view(target).substr(0, target.size() - kGpus.size()), 1, kMostGpus);
}

llvm::Expected<RankedStrategies> RankStrategies(ReadableFileSystem& files, const CompileRequest& request,
                                                std::int64_t gpus) {
  UCP_ASSIGN_OR_RETURN(const Described described, DescribeCheckpoint(files, request.source));
  Ranking ranking(files, request, described);
  for (const std::int64_t pp : DivisorsOf(gpus)) {
    for (const std::int64_t tp : DivisorsOf(gpus / pp)) {
      UCP_RETURN_IF_ERROR(ranking.Add({pp, tp, gpus / pp / tp}));
    }
  }
  RankedStrategies ranked = ranking.Finish();
  if (!ranked.allowed.empty()) return ranked;
  return Fail(ErrorCode::kUsage, "no strategy of {} ranks goes with this checkpoint: {}", gpus,
              fmt::join(ranked.refused, "; "));
}

llvm::Expected<std::vector<std::string>> ChooseStrategy(ReadableFileSystem& files, const CompileRequest& request,
                                                        bool lists_all, std::string& target) {
  std::vector<std::string> texts;
  const std::optional<std::int64_t> gpus = GpusOf(target);
  const bool is_number = target.size() > kGpus.size() && target.ends_with(kGpus) &&
                         target.find_first_not_of("0123456789") == target.size() - kGpus.size();
  if (!gpus && is_number) return Fail(ErrorCode::kUsage, "`{}`: the number is from 1 to {}", target, kMostGpus);
  if (!gpus) return texts;
  UCP_ASSIGN_OR_RETURN(const RankedStrategies strategies, RankStrategies(files, request, *gpus));
  const RankedStrategy& taken = strategies.allowed[strategies.taken];
  target = taken.strategy;
  texts.push_back(fmt::format("{}{} is taken as {}, which changes least: a rank reads {}", *gpus, kGpus,
                              OptionName(UserOption::kTo, taken.strategy), HumanBytes(taken.bytes_of_rank)));
  if (!lists_all) return texts;
  for (const RankedStrategy& one : strategies.allowed) {
    texts.push_back(fmt::format("possible: {}, {} a rank, {} in all", one.strategy, HumanBytes(one.bytes_of_rank),
                                HumanBytes(one.bytes_to_write)));
  }
  for (const std::string& reason : strategies.refused) texts.push_back("not possible: " + reason);
  return texts;
}

}  // namespace ucp
