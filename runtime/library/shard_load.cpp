// A plan whose target's files are memory, and the records of one rank of it. The chosen parts of the rank decide which
// records are needed; these are the blocks.
#include <llvm/Support/GlobPattern.h>

#include <algorithm>
#include <cstddef>
#include <new>

#include "compiler/open/with_diagnostics.h"
#include "compiler/support/error.h"
#include "runtime/library/call.h"
#include "runtime/library/given_ranks.h"
#include "runtime/load/opened_devices.h"
#include "runtime/load_plan/rank_states.h"
#include "ucp/load.h"

namespace ucp {
namespace {

// The rank's states that a choice takes.
class Chosen {
 public:
  static llvm::Expected<Chosen> Make(const ShardChoice& choice, const std::vector<PlacedState>& states, int rank) {
    Chosen chosen;
    chosen.takes_.assign(states.size(), true);
    UCP_RETURN_IF_ERROR(chosen.Keep(choice.tensors, "tensor", states, rank, &PlacedState::tensor));
    UCP_RETURN_IF_ERROR(chosen.Keep(choice.states, "state", states, rank, &PlacedState::state));
    return chosen;
  }

  bool Takes(std::size_t state) const { return takes_[state]; }

 private:
  // A pattern that nothing fits was not meant.
  llvm::Error Keep(const std::vector<std::string>& patterns, std::string_view what,
                   const std::vector<PlacedState>& states, int rank, std::string PlacedState::* name) {
    std::vector<bool> fits(states.size(), false);
    for (const std::string& text : patterns) {
      llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(text);
      if (!pattern) {
        return Fail(ErrorCode::kUsage, "`{}` is not a valid pattern: {}", text, llvm::toString(pattern.takeError()));
      }
      bool fits_any = text == "*";
      for (std::size_t state = 0; state < states.size(); ++state) {
        if (!pattern->match(states[state].*name)) continue;
        fits[state] = true;
        fits_any = true;
      }
      if (!fits_any) return Fail(ErrorCode::kUsage, "rank {} has no {} whose name fits `{}`", rank, what, text);
    }
    for (std::size_t state = 0; state < states.size(); ++state) takes_[state] = takes_[state] && fits[state];
    return llvm::Error::success();
  }

  std::vector<bool> takes_;
};

llvm::Expected<int> RankOf(const ShardChoice& choice, const std::string& to, int ranks_of_job, Communicator& ranks) {
  if (ranks.size() > 1) {
    if (!choice.rank || *choice.rank == ranks.rank()) return ranks.rank();
    return Fail(ErrorCode::kUsage, "rank {} is asked for, and this process is rank {} of those that load", *choice.rank,
                ranks.rank());
  }
  if (!choice.rank) {
    if (ranks_of_job <= 1) return 0;
    return Fail(ErrorCode::kUsage, "`{}` is a job of {} ranks; say whose part is to be loaded", to, ranks_of_job);
  }
  if (*choice.rank < 0 || (ranks_of_job > 0 && *choice.rank >= ranks_of_job)) {
    return Fail(ErrorCode::kUsage, "rank {} is asked for, and `{}` is a job of {} ranks, counted from 0", *choice.rank,
                to, ranks_of_job);
  }
  return *choice.rank;
}

llvm::Expected<LoadPlan> PlanLoad(const LoadSource& source, const std::string& to, const ShardChoice& choice,
                                  const LoadOptions& options, Communicator& ranks) {
  LoadRequest request;
  request.is_checked = options.check_source;
  request.compile.threads = options.threads;
  UCP_ASSIGN_OR_RETURN(request.compile.source, RequestOf(source, ranks));
  request.compile.target = to;
  request.compile.settings.job_config = choice.ds_config;
  OpenedSpec spec;
  request.compile.source.opened = &spec;
  llvm::Expected<LoadPlan> load = CompileLoad(RealFileSystem(), request, ranks);
  if (!load) return WithDiagnostics(load.takeError(), spec);
  return load;
}

}  // namespace

inline namespace v0 {

class ShardLoad::State {
 public:
  State(const LoadSource& source, const std::string& to, const ShardChoice& choice, const LoadSettings& settings)
      : ranks_(settings.ranks),
        options_(Take(LoadOptionsOf(settings, ranks_))),
        plan_(Take(PlanLoad(source, to, choice, options_, ranks_))) {
    ThrowIf(Agree(ranks_, Choose(to, choice)));
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  LoadTotals Fill() {
    std::vector<std::span<std::byte>> blocks;
    ThrowIf(Agree(ranks_, MakeBlocks(blocks)));
    return Fill(blocks);
  }

  LoadTotals Fill(std::span<const std::span<std::byte>> blocks, const std::string& device = {}) {
    ThrowIf(Agree(ranks_, CheckBlocks(blocks)));
    OpenedDevices devices;
    llvm::Expected<const Device*> opened = devices.Open(device.empty() ? "cpu" : device);
    ThrowIf(Agree(ranks_, opened ? llvm::Error::success() : opened.takeError()));
    blocks_.assign(blocks.begin(), blocks.end());
    std::vector<WantedRecord> wanted;
    for (std::size_t block = 0; block < blocks.size(); ++block) {
      wanted.push_back({records_[block], blocks[block], *opened});
    }
    return TotalsOf(Take(Load(plan_, RealFileSystem(), wanted, options_)));
  }

  const LoadPlan& plan() const { return plan_; }

  std::vector<ShardPart> parts;
  std::vector<std::uint64_t> block_bytes;
  std::vector<std::pair<std::string, std::string>> not_chosen;

  std::span<std::byte> BytesOf(const ShardPart& part) const {
    return part.block < blocks_.size() ? blocks_[part.block].subspan(part.offset, part.bytes())
                                       : std::span<std::byte>();
  }

 private:
  llvm::Error Choose(const std::string& to, const ShardChoice& choice) {
    UCP_ASSIGN_OR_RETURN(const int rank, RankOf(choice, to, plan_.readers.ranks, ranks_));
    const std::vector<PlacedState> states = StatesOf(plan_, rank);
    UCP_ASSIGN_OR_RETURN(const Chosen chosen, Chosen::Make(choice, states, rank));
    std::vector<std::optional<std::size_t>> block_of(plan_.plan.target.records.size());
    for (std::size_t number = 0; number < states.size(); ++number) {
      const PlacedState& state = states[number];
      if (!chosen.Takes(number)) {
        not_chosen.emplace_back(state.tensor, state.state);
        continue;
      }
      for (const StatePiece& piece : state.pieces) AddPart(state, piece, block_of[piece.record.index()]);
    }
    return llvm::Error::success();
  }

  void AddPart(const PlacedState& state, const StatePiece& piece, std::optional<std::size_t>& block) {
    if (!block) {
      block = records_.size();
      records_.push_back(piece.record);
      block_bytes.push_back(plan_.plan.target.record(piece.record).bytes);
    }
    const auto item_bytes = static_cast<std::uint64_t>(ItemBytes(state.dtype));
    parts.push_back({state.tensor,
                     state.state,
                     std::string(Name(state.dtype)),
                     item_bytes,
                     state.shape,
                     {state.coordinate.at.begin(), state.coordinate.at.end()},
                     piece.begin,
                     piece.end,
                     *block,
                     static_cast<std::uint64_t>(piece.place) * item_bytes});
  }

  llvm::Error MakeBlocks(std::vector<std::span<std::byte>>& blocks) {
    own_.resize(block_bytes.size());  // They stay where they are when they are filled again.
    for (std::size_t block = 0; block < own_.size(); ++block) {
      const std::uint64_t bytes = block_bytes[block];
      if (own_[block] == nullptr) own_[block].reset(new (std::nothrow) std::byte[bytes]);
      if (own_[block] == nullptr) {
        return Fail(ErrorCode::kMemory, "there is not enough memory: the system does not give a block of {} bytes",
                    bytes);
      }
      blocks.emplace_back(own_[block].get(), bytes);
    }
    return llvm::Error::success();
  }

  llvm::Error CheckBlocks(std::span<const std::span<std::byte>> blocks) const {
    if (blocks.size() != block_bytes.size()) {
      return Fail(ErrorCode::kUsage, "the load has {} blocks, and memory is given for {}", block_bytes.size(),
                  blocks.size());
    }
    for (std::size_t block = 0; block < blocks.size(); ++block) {
      if (blocks[block].size() == block_bytes[block]) continue;
      return Fail(ErrorCode::kUsage, "block {} has {} bytes, and the memory for it {}", block, block_bytes[block],
                  blocks[block].size());
    }
    return llvm::Error::success();
  }

  GivenRanks ranks_;
  LoadOptions options_;
  LoadPlan plan_;
  std::vector<RecordId> records_;  // By block.
  std::vector<std::unique_ptr<std::byte[]>> own_;
  std::vector<std::span<std::byte>> blocks_;  // As they were filled last.
};

bool ShardPart::is_all() const {
  std::int64_t elements = 1;
  for (std::int64_t length : shape) elements *= length;
  return begin == 0 && end == elements;
}

ShardLoad::ShardLoad(const LoadSource& source, const std::string& to, const ShardChoice& choice,
                     const LoadSettings& settings)
    : state_(std::make_unique<State>(source, to, choice, settings)) {}
ShardLoad::ShardLoad(ShardLoad&&) noexcept = default;
ShardLoad& ShardLoad::operator=(ShardLoad&&) noexcept = default;
ShardLoad::~ShardLoad() = default;

const std::vector<ShardPart>& ShardLoad::parts() const { return state_->parts; }
const std::vector<std::uint64_t>& ShardLoad::block_bytes() const { return state_->block_bytes; }
const std::vector<std::pair<std::string, std::string>>& ShardLoad::not_chosen() const { return state_->not_chosen; }
int ShardLoad::ranks_of_job() const { return state_->plan().readers.ranks; }
const std::vector<std::string>& ShardLoad::remarks() const { return state_->plan().plan.remarks; }
LoadTotals ShardLoad::Fill() { return state_->Fill(); }
LoadTotals ShardLoad::Fill(std::span<const std::span<std::byte>> blocks, const std::string& device) {
  return state_->Fill(blocks, device);
}
std::span<std::byte> ShardLoad::BytesOf(const ShardPart& part) const { return state_->BytesOf(part); }

}  // namespace v0
}  // namespace ucp
