// All that loading a pickle looks up and calls, also what it throws away before its end, and up to where it breaks: for
// finding out what a file of unknown origin would do. Nothing is refused that a reader refuses for its meaning, such as
// sparse tensors and objects that contain themselves. Protocols 0 to 5.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/formats/pytorch/pickle/pickle_reader.h"
#include "compiler/formats/pytorch/values/value.h"

namespace ucp::pytorch {

class PickleMachine;

struct MadeObject {
  ValuePtr value;     // A Global; or what a call made: a Call, a Tensor, Bytes.
  ValuePtr callable;  // Of what was called; null for a Global.
};

// Values may contain themselves, nest a million deep, and live as long as this object.
class PickleScan {
 public:
  // Of the pickle that stands at the beginning of `bytes`, which must outlive this object.
  PickleScan(std::string_view bytes, const PickleLimits& limits);
  PickleScan(const PickleScan&) = delete;
  PickleScan& operator=(const PickleScan&) = delete;
  ~PickleScan();

  const std::vector<MadeObject>& made() const;  // In the order of the pickle.
  const Value* root() const;                    // Null if it has no end.
  std::size_t bytes_read() const;
  std::uint64_t missing_bytes() const;  // It is cut off: so many more bytes are needed at the least.
  // An instruction that torch.save never writes: "INST at byte 12"; empty if there is none.
  const std::string& odd_instruction() const;
  const std::optional<std::string>& failure() const { return failure_; }  // Why the rest is not known.

 private:
  std::unique_ptr<PickleMachine> machine_;
  std::optional<std::string> failure_;
};

}  // namespace ucp::pytorch
