// The files do not say where buckets end. The arguments do, and the comparison of each weight with its master shows
// whether they do so rightly.
#include "compiler/formats/megatron/shifted_states.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "compiler/formats/megatron/rules/buckets.h"
#include "compiler/formats/megatron/rules/flat_ranges.h"
#include "compiler/formats/megatron/rules/rank_buffers.h"

namespace ucp::megatron {
namespace {

using dcp::Chunk;
using dcp::Entry;

// A parameter's window on the joined buckets.
struct Window {
  const BufferParameter* parameter = nullptr;
  std::int64_t elements = 0;
  std::int64_t place = 0;  // Where its own elements are.
  std::int64_t begin = 0;  // Where those are that stand in the file as its own.
};

// Consecutive elements of a parameter, which are in one of its parts.
struct Piece {
  const Chunk* part = nullptr;
  std::int64_t begin = 0;
  std::int64_t elements = 0;
};

std::vector<Piece> PiecesOf(const BufferParameter& parameter, std::int64_t begin, std::int64_t end) {
  std::vector<Piece> pieces;
  std::int64_t before = 0;
  for (const Chunk* part : parameter.parts) {
    const std::int64_t behind = before + ElementsIn(*part);
    const std::int64_t from = std::max(begin, before);
    const std::int64_t to = std::min(end, behind);
    if (from < to) pieces.push_back({part, from - before, to - from});
    before = behind;
  }
  return pieces;
}

class Windows {
 public:
  Windows(const Keys& keys, const Arguments& arguments) : keys_(keys), arguments_(arguments) {
    for (const StateKey& state : keys.states) states_[state.tensor][state.state] = state.entry;
  }

  ShiftedStates Find() {
    const auto take = [this](const RanksBuffer& buffer) { return Take(buffer); };
    if (std::string unread = ForEachBuffer(keys_.tensors, arguments_, take); !unread.empty()) Give(std::move(unread));
    if (result_.unread.empty() && !is_shifted_) {
      Give("no bucket but the last ones has padding by `args`, and so nothing is shifted");
    }
    for (const InTensor& lost : lost_) {
      if (!result_.unread.empty() || !Fill(lost)) break;
    }
    return std::move(result_);
  }

 private:
  struct InTensor {
    const Entry* tensor = nullptr;
    Piece piece;
  };

  // False, so that callers end with it.
  bool Give(std::string unread) {
    result_.unread = std::move(unread);
    return false;
  }

  // The copies of a tied embedding stand in buckets of their own.
  bool IsTied(const Entry& tensor) const {
    return tensor.key == kWordEmbeddings && arguments_.Number("pipeline_model_parallel_size").value_or(1) > 1 &&
           std::ranges::find(keys_.tensors, kHead, &Entry::key) == keys_.tensors.end();
  }

  bool Take(const RanksBuffer& buffer) {
    if (arguments_.Number("ddp_num_buckets")) return Give("the sizes of buckets do not follow from `ddp_num_buckets`");
    std::vector<bool> are_alone;
    for (const BufferParameter& parameter : buffer.parameters) are_alone.push_back(IsTied(*parameter.tensor));
    const std::vector<std::int64_t> elements = buffer.elements();
    const auto most = buffer.stage == 0 ? arguments_.ElementsOfBucket() : std::nullopt;
    const Buckets buckets = DealIntoBuckets(elements, are_alone, most);
    const std::int64_t multiple =
        std::lcm(buffer.copies, arguments_.IsSet("ddp_pad_buckets_for_high_nccl_busbw") ? 65536 : 128);
    std::vector<std::int64_t> places = {0};
    std::vector<std::int64_t> begins = {0};
    for (const std::int64_t size : buckets.sizes) {
      places.push_back(places.back() + size);
      begins.push_back(begins.back() + (size + multiple - 1) / multiple * multiple);
      is_shifted_ = is_shifted_ || (places.size() <= buckets.sizes.size() && places.back() != begins.back());
    }
    std::vector<Window> windows;  // Of the parameters that this rank is the first to have.
    for (std::size_t i = buffer.parameters.size(); i-- > 0;) {
      const BufferParameter& parameter = buffer.parameters[i];
      if (!seen_.insert(parameter.parts.front()).second) continue;
      const auto [bucket, at] = buckets.places[i];
      windows.push_back({&parameter, elements[i], places[bucket] + at, begins[bucket] + at});
    }
    if (windows.empty()) return Give(fmt::format("`{}` has no part of a tensor that others do not have", buffer.key()));
    for (const Window& window : windows) {
      if (!Take(window, windows)) return false;
    }
    return true;
  }

  // `windows`: in the order of their begins.
  bool Take(const Window& window, const std::vector<Window>& windows) {
    const std::int64_t end = window.place + window.elements;
    for (std::int64_t at = window.place; at < end;) {
      const auto next = std::ranges::upper_bound(windows, at, {}, &Window::begin);
      const Window* held = next == windows.begin() ? nullptr : &*std::prev(next);
      const bool is_held = held != nullptr && at < held->begin + held->elements;
      const std::int64_t behind = is_held ? held->begin + held->elements : next != windows.end() ? next->begin : end;
      const std::int64_t to = std::min(end, behind);
      std::vector<Piece> wanted = PiecesOf(*window.parameter, at - window.place, to - window.place);
      if (!is_held) {
        for (const Piece& piece : wanted) Lose(*window.parameter->tensor, piece);
      } else if (!Copy(*window.parameter->tensor, wanted, *held->parameter, at - held->begin)) {
        return false;
      }
      at = to;
    }
    return true;
  }

  bool Copy(const Entry& tensor, const std::vector<Piece>& wanted, const BufferParameter& held, std::int64_t from) {
    for (Piece piece : wanted) {
      for (const Piece& stored : PiecesOf(held, from, from + piece.elements)) {
        if (!CopyStates(tensor, {piece.part, piece.begin, stored.elements}, *held.tensor, stored)) return false;
        piece.begin += stored.elements;
      }
      from += piece.elements;
    }
    return true;
  }

  bool CopyStates(const Entry& tensor, const Piece& wanted, const Entry& held, const Piece& stored) {
    const auto& states = states_[tensor.key];
    if (states.empty()) return Give(fmt::format("`{}` has no states", tensor.key));
    for (const auto& [state, entry] : states) {
      const Chunk* chunk = ChunkOf(state, held, *stored.part);
      if (chunk == nullptr) {
        return Give(fmt::format("the state `{}` of `{}` is not stored in the chunks of its weights", state, held.key));
      }
      result_.ranges[tensor.key].push_back({state, chunk, stored.begin, wanted.part, wanted.begin, wanted.elements});
    }
    return true;
  }

  // The chunk of a state that is where a part of the weights is.
  const Chunk* ChunkOf(const std::string& state, const Entry& tensor, const Chunk& part) {
    const auto& states = states_[tensor.key];
    const auto entry = states.find(state);
    if (entry == states.end()) return nullptr;
    const auto found = std::ranges::lower_bound(entry->second->chunks, part.offsets, {}, &Chunk::offsets);
    const bool is_there = found != entry->second->chunks.end() && found->offsets == part.offsets;
    return is_there && found->sizes == part.sizes ? &*found : nullptr;
  }

  void Lose(const Entry& tensor, const Piece& piece) {
    lost_.push_back({&tensor, piece});
    for (const FlatBox& box : BoxesOfRange(piece.part->sizes, piece.begin, piece.begin + piece.elements)) {
      std::vector<std::string> dims;
      for (std::size_t d = 0; d < box.sizes.size(); ++d) {
        const std::int64_t first = piece.part->offsets[d] + box.offsets[d];
        dims.push_back(box.sizes[d] == 1 ? fmt::to_string(first) : fmt::format("{}:{}", first, first + box.sizes[d]));
      }
      result_.lost.push_back(fmt::format("`{}`[{}]", tensor.key, fmt::join(dims, ", ")));
    }
  }

  bool Fill(const InTensor& lost) {
    const Piece& piece = lost.piece;
    if (lost.tensor->dtype != DType::kBFloat16) {
      return Give(fmt::format("what is lost of `{}` is filled from weights of bfloat16, and they are {}",
                              lost.tensor->key, Name(lost.tensor->dtype)));
    }
    for (const auto& [state, entry] : states_[lost.tensor->key]) {
      result_.ranges[lost.tensor->key].push_back(
          {state, piece.part, piece.begin, piece.part, piece.begin, piece.elements, true});
    }
    return true;
  }

  const Keys& keys_;
  const Arguments& arguments_;
  std::map<std::string, std::map<std::string, const Entry*>> states_;  // By tensor and state.
  std::set<const Chunk*> seen_;  // Parts of parameters that a rank before has: it stored their states.
  std::vector<InTensor> lost_;
  bool is_shifted_ = false;
  ShiftedStates result_;
};

}  // namespace

ShiftedStates FindShiftedStates(const Keys& keys, const Arguments& arguments) {
  return Windows(keys, arguments).Find();
}

}  // namespace ucp::megatron
