// Every rank knows the schedule, so that a round is nothing but bytes: what this rank read for others goes to each of
// them, and it takes what others read for it. While a round is delivered, the threads read the next one.
//
// A rank whose reading fails has no bytes to give, and others count on them. It continues the rounds, without reading,
// until all ranks look whether one of them has failed, which they do every few rounds.
#include "runtime/load/share_reads.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <map>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/out_of_memory.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {
namespace {

constexpr std::uint64_t kMostRoundBytes = std::uint64_t{32} << 20;  // More does not make it faster.
constexpr std::uint64_t kLeastRounds = 4;                           // As many fit into the least memory.
constexpr std::uint32_t kRoundsBetweenLooks = 8;

std::uint64_t BytesIn(const Content& content, std::int64_t elements) {
  return static_cast<std::uint64_t>(elements * ItemBytes(content.range.dtype));
}

std::uint64_t CostOf(const Plan& plan, const Content& content, std::int64_t elements) {
  const TargetRange& range = content.range;
  const std::int64_t terms = plan.tensor(plan.writes[range.write].first_tensor()).arithmetic.terms;
  return static_cast<std::uint64_t>(elements * ItemBytes(range.source_dtype) * terms);
}

llvm::Error AnotherPlan(std::size_t rank) {
  return Fail(ErrorCode::kIo, "rank {} shares other elements than its peers; all ranks must run the same ucp", rank);
}

}  // namespace

// Contents that are not shared come first, and then set by set.
std::string Exchange::EncodeSets() const {
  wire::ByteWriter writer;
  wire::ByteWriter sets;
  std::uint64_t alone = 0;
  for (const SharedContents& shared : contents_) {
    std::uint64_t bytes = 0;
    std::uint64_t cost = 0;
    for (const Content& content : shared.contents) {
      bytes += BytesIn(content, content.range.end - content.range.begin);
      cost += CostOf(plan_, content, content.range.end - content.range.begin);
    }
    if (shared.ranks.size() < 2) {
      alone += cost;
      continue;
    }
    for (std::uint64_t number : {bytes, cost, std::uint64_t{shared.ranks.size()}}) sets.Add(number);
    for (int rank : shared.ranks) sets.Add(static_cast<std::uint64_t>(rank));
  }
  writer.Add(alone);
  writer.Add(sets.bytes());
  return writer.bytes();
}

llvm::Error Exchange::AgreeOnSizes() {
  wire::ByteWriter writer;
  writer.Add(std::min(options_.chunk_bytes, room_.most_piece_bytes()));
  const std::uint64_t round_bytes = options_.memory_bytes / room_.held_at_once();
  writer.Add(std::clamp(round_bytes, LeastMemory(ranks_.size()) / kLeastRounds, kMostRoundBytes));
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks_.AllGather(writer.bytes()));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    wire::ByteReader reader(all[rank]);
    const std::uint64_t chunk = reader.Number();
    const std::uint64_t round = reader.Number();
    if (reader.has_failed() || chunk == 0 || round < 2) return AnotherPlan(rank);
    chunk_bytes_ = rank == 0 ? chunk : std::min(chunk_bytes_, chunk);
    round_bytes_ = rank == 0 ? round : std::min(round_bytes_, round);
  }
  return llvm::Error::success();
}

// All sets of all ranks, in one order everywhere. Each member of a set reports it.
llvm::Expected<std::vector<SharedBytes>> Exchange::GatherSets(std::vector<std::uint64_t>& alone) {
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks_.AllGather(EncodeSets()));
  std::map<std::vector<int>, std::pair<SharedBytes, std::size_t>> known;  // And how many reported it.
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    wire::ByteReader reader(all[rank]);
    alone.push_back(reader.Number());
    const std::string sets = reader.Text();
    if (!reader.is_at_end()) return AnotherPlan(rank);
    for (wire::ByteReader of_set(sets); !of_set.left().empty();) {
      SharedBytes set;
      set.bytes = of_set.Number();
      set.cost = of_set.Number();
      set.ranks.resize(of_set.Count());
      for (int& member : set.ranks) member = static_cast<int>(std::min<std::uint64_t>(of_set.Number(), INT32_MAX));
      const bool ascends = std::ranges::adjacent_find(set.ranks, std::greater_equal()) == set.ranks.end();
      const bool is_member = std::ranges::binary_search(set.ranks, static_cast<int>(rank));
      if (set.ranks.size() < 2 || !ascends || !is_member || set.ranks.back() >= ranks_.size()) return AnotherPlan(rank);
      auto& [first, reports] = known.try_emplace(set.ranks, set, 0).first->second;
      if (first != set) return AnotherPlan(rank);
      ++reports;
    }
  }
  std::vector<SharedBytes> sets;
  for (const auto& [members, entry] : known) {
    if (entry.second != members.size()) return AnotherPlan(static_cast<std::size_t>(members.front()));
    sets.push_back(entry.first);
  }
  return sets;
}

std::uint64_t Exchange::BytesOf(const Set& set, const Piece& piece) const {
  return BytesIn((*set.contents)[piece.content], piece.end - piece.begin);
}

std::uint64_t Exchange::BytesOf(const Part& part) const {
  std::uint64_t bytes = 0;
  for (std::size_t i = part.first; i < part.end; ++i) bytes += BytesOf(sets_[part.set], sets_[part.set].pieces[i]);
  return bytes;
}

void Exchange::Deal(const std::vector<SharedBytes>& sets, const std::vector<std::uint64_t>& alone) {
  const std::vector<std::vector<std::uint64_t>> quotas = QuotasOf(sets, alone);
  const ExchangeSchedule schedule = MakeSchedule(sets, ranks_.size(), round_bytes_);
  rounds_.resize(schedule.rounds);
  std::map<std::vector<int>, const SharedContents*> own;
  for (const SharedContents& shared : contents_) own[shared.ranks] = &shared;
  for (std::size_t number = 0; number < sets.size(); ++number) {
    auto found = own.find(sets[number].ranks);
    if (found == own.end()) continue;
    Set& set = sets_.emplace_back();
    set.ranks = sets[number].ranks;
    set.contents = &found->second->contents;
    const std::uint64_t piece_bytes = std::min(chunk_bytes_, PieceBytesOf(sets[number], round_bytes_));
    set.pieces = CutIntoPieces(plan_, *set.contents, piece_bytes);
    // Sets of other ranks may be of the same files.
    const auto first =
        set.pieces.size() * static_cast<std::size_t>(set.ranks.front()) / static_cast<std::size_t>(ranks_.size());
    std::rotate(set.pieces.begin(), set.pieces.begin() + static_cast<std::ptrdiff_t>(first), set.pieces.end());
    DealSet(sets_.size() - 1, quotas[number], schedule.rounds_of_set[number]);
  }
}

// Each member has as long a stretch as its quota. A piece is where it begins.
void Exchange::DealSet(std::size_t number, const std::vector<std::uint64_t>& quotas,
                       const std::vector<std::uint32_t>& rounds) {
  const Set& set = sets_[number];
  std::uint64_t at = 0;  // The cost of the pieces before.
  std::uint64_t end = 0;
  std::size_t piece = 0;
  for (std::size_t member = 0; member < quotas.size(); ++member) {
    end += quotas[member];
    Part stretch{number, set.ranks[member], piece, piece, {}};
    for (; stretch.end < set.pieces.size() && at < end; ++stretch.end) {
      const Piece& next = set.pieces[stretch.end];
      at += CostOf(plan_, (*set.contents)[next.content], next.end - next.begin);
    }
    piece = stretch.end;
    AddTurns(stretch, rounds);
  }
}

// Each turn has an equal part of every stretch.
void Exchange::AddTurns(const Part& stretch, const std::vector<std::uint32_t>& rounds) {
  const Set& set = sets_[stretch.set];
  const std::uint64_t bytes = BytesOf(stretch);
  std::uint64_t at = 0;
  std::size_t piece = stretch.first;
  for (std::uint64_t turn = 0; turn < rounds.size(); ++turn) {
    const std::uint64_t left = rounds.size() - turn - 1;  // Turns behind this one.
    const std::uint64_t end = bytes - bytes / rounds.size() * left;
    Part part{stretch.set, stretch.reader, piece, piece, {}};
    for (; part.end < stretch.end && at < end; ++part.end) at += BytesOf(set, set.pieces[part.end]);
    piece = part.end;
    if (part.first < part.end) rounds_[rounds[turn]].push_back(part);
  }
}

// For the rounds that need the most.
llvm::Error Exchange::MakeRoom() {
  std::uint64_t most_own = 0;
  std::uint64_t most_taken = 0;
  for (const std::vector<Part>& parts : rounds_) {
    std::uint64_t own = 0;
    std::uint64_t taken = 0;
    for (const Part& part : parts) (part.reader == ranks_.rank() ? own : taken) += BytesOf(part);
    most_own = std::max(most_own, own);
    most_taken = std::max(most_taken, taken);
  }
  return room_.Make(most_own, most_taken);
}

std::vector<Exchange::Part> Exchange::PartsOf(std::size_t round, Side side, std::span<std::byte> left) const {
  std::vector<Part> parts;
  if (round >= rounds_.size()) return parts;
  for (const Part& part : rounds_[round]) {
    if ((part.reader == ranks_.rank()) != (side == Side::kReads)) continue;
    parts.push_back(part);
    parts.back().bytes = left.first(BytesOf(part));
    left = left.subspan(parts.back().bytes.size());
  }
  return parts;
}

std::vector<PieceInRoom> Exchange::PiecesOf(const std::vector<Part>& parts) const {
  std::vector<PieceInRoom> pieces;
  for (const Part& part : parts) {
    const Set& set = sets_[part.set];
    std::span<std::byte> left = part.bytes;
    for (std::size_t i = part.first; i < part.end; ++i) {
      const Piece& piece = set.pieces[i];
      pieces.push_back({&(*set.contents)[piece.content], piece, left.first(BytesOf(set, piece))});
      left = left.subspan(pieces.back().bytes.size());
    }
  }
  return pieces;
}

llvm::Error Exchange::ReadParts(const std::vector<Part>& parts, Read read) const {
  return room_.ReadPieces(PiecesOf(parts), options_.parallel, read);
}

llvm::Error Exchange::Deliver(const std::vector<Part>& own, const std::vector<Part>& taken) {
  std::vector<Outgoing> sending;
  for (const Part& part : own) {
    for (int rank : sets_[part.set].ranks) {
      if (rank != ranks_.rank()) sending.push_back({rank, part.bytes});
    }
  }
  std::vector<Incoming> receiving;
  for (const Part& part : taken) {
    receiving.push_back({part.reader, part.bytes});
    bytes_received_ += part.bytes.size();
  }
  return room_.Deliver(sending, receiving);
}

void Exchange::Note(llvm::Error error) {
  if (!error) return;
  FailureText text = TakeFailure(std::move(error));
  if (failure_) return;
  failure_ = std::move(text);
  ranks_.AskToStop();
}

llvm::Expected<bool> Exchange::HasAnyFailed() {
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> told, ranks_.AllGather(failure_ ? "failed" : ""));
  return std::ranges::any_of(told, [](const std::string& one) { return !one.empty(); });
}

// Returns what was read for the next round.
llvm::Expected<std::vector<Exchange::Part>> Exchange::RunRound(std::size_t number, const std::vector<Part>& own,
                                                               Read read) {
  if (ranks_.IsAskedToStop()) Note(Fail(ErrorCode::kCancelled, "interrupted"));
  std::vector<Part> next = PartsOf(number + 1, Side::kReads, room_.own(number + 1));
  const std::vector<Part> taken = PartsOf(number, Side::kTakes, room_.taken());
  auto read_next = [&] { return failure_ ? llvm::Error::success() : ReadParts(next, read); };
  // Where the system has no more threads, when it is asked for.
  std::future<llvm::Error> reading =
      std::async(std::launch::async | std::launch::deferred, [&] { return WithinMemory(read_next); });
  llvm::Error delivered = Deliver(own, taken);
  Note(reading.get());
  if (delivered) {  // Others may have had no such error: this rank continues with them until all look (HasAnyFailed()).
    Note(std::move(delivered));
    return next;
  }
  std::vector<PieceInRoom> pieces = PiecesOf(own);
  std::ranges::copy(PiecesOf(taken), std::back_inserter(pieces));
  Note(room_.Place(pieces));
  return next;
}

llvm::Error Exchange::Run(Read read) {
  UCP_RETURN_IF_ERROR(AgreeOnSizes());
  std::vector<std::uint64_t> alone;
  UCP_ASSIGN_OR_RETURN(const std::vector<SharedBytes> sets, GatherSets(alone));
  Deal(sets, alone);
  Note(MakeRoom());
  UCP_ASSIGN_OR_RETURN(const bool has_no_room, HasAnyFailed());
  if (has_no_room) return Outcome();
  std::vector<Part> own = PartsOf(0, Side::kReads, room_.own(0));
  Note(ReadParts(own, read));
  for (std::size_t number = 0; number < rounds_.size(); ++number) {
    UCP_ASSIGN_OR_RETURN(own, RunRound(number, own, read));
    if ((number + 1) % kRoundsBetweenLooks != 0 && number + 1 < rounds_.size()) continue;
    llvm::Expected<bool> has_failed = HasAnyFailed();
    if (!has_failed) {
      Note(has_failed.takeError());
      break;
    }
    if (*has_failed) return Outcome();
  }
  return failure_ ? Outcome() : llvm::Error::success();
}

// Agree() prefers what another rank says.
llvm::Error Exchange::Outcome() const {
  return failure_ ? MakeError(failure_->code, failure_->message) : Fail(ErrorCode::kCancelled, "interrupted");
}

}  // namespace ucp
