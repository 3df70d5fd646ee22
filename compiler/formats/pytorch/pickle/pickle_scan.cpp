// The instructions of protocols 0 and 1 that a reader refuses. Their meaning is kept as far as it says what is called.
#include "compiler/formats/pytorch/pickle/pickle_scan.h"

#include "compiler/formats/pytorch/pickle/pickle_machine.h"
#include "compiler/support/error.h"

namespace ucp::pytorch {

PickleScan::PickleScan(std::string_view bytes, const PickleLimits& limits)
    : machine_(std::make_unique<PickleMachine>(bytes, limits, PickleMachine::Use::kScan)) {
  if (llvm::Error error = machine_->Scan()) failure_ = TakeFailure(std::move(error)).message;
}

PickleScan::~PickleScan() = default;

const std::vector<MadeObject>& PickleScan::made() const { return machine_->made(); }
const Value* PickleScan::root() const { return failure_ ? nullptr : machine_->root(); }
std::size_t PickleScan::bytes_read() const { return machine_->bytes_read(); }
std::uint64_t PickleScan::missing_bytes() const { return machine_->missing_bytes(); }
const std::string& PickleScan::odd_instruction() const { return machine_->odd_instruction(); }

llvm::Error PickleMachine::NoteOdd(std::string_view instruction) {
  if (odd_instruction_.empty()) odd_instruction_ = fmt::format("{} at byte {}", instruction, instruction_offset_);
  return llvm::Error::success();
}

// Escapes stay what they are: no name on any list has one.
llvm::Error PickleMachine::PushStringLine() {
  UCP_ASSIGN_OR_RETURN(std::string_view line, TakeLine());
  if (line.size() >= 2 && line.front() == line.back() && (line.front() == '\'' || line.front() == '"')) {
    line = line.substr(1, line.size() - 2);
  }
  return PushOldString(line);
}

llvm::Error PickleMachine::PushTextLine() {
  UCP_ASSIGN_OR_RETURN(const std::string_view line, TakeLine());
  return PushOldString(line);
}

llvm::Error PickleMachine::PersistentIdLine() {
  UCP_RETURN_IF_ERROR(NoteOdd("PERSID"));
  UCP_ASSIGN_OR_RETURN([[maybe_unused]] const std::string_view line, TakeLine());
  return PushNone();
}

// A mark, the arguments, and the class by its name.
llvm::Error PickleMachine::MakeInstance() {
  UCP_RETURN_IF_ERROR(NoteOdd("INST"));
  UCP_RETURN_IF_ERROR(PushGlobal());
  UCP_ASSIGN_OR_RETURN(ValuePtr object_class, Pop());
  UCP_ASSIGN_OR_RETURN(std::vector<ValuePtr> arguments, PopToMark());
  UCP_RETURN_IF_ERROR(Push(std::move(object_class)));
  UCP_RETURN_IF_ERROR(PushNew(Tuple{std::move(arguments)}));
  return Reduce();
}

// A mark, the class, and the arguments.
llvm::Error PickleMachine::MakeInstanceToMark() {
  UCP_RETURN_IF_ERROR(NoteOdd("OBJ"));
  UCP_ASSIGN_OR_RETURN(std::vector<ValuePtr> values, PopToMark());
  if (values.empty()) return Fail(ErrorCode::kBadData, "an object is made of nothing");
  UCP_RETURN_IF_ERROR(Push(values.front()));
  values.erase(values.begin());
  UCP_RETURN_IF_ERROR(PushNew(Tuple{std::move(values)}));
  return Reduce();
}

}  // namespace ucp::pytorch
