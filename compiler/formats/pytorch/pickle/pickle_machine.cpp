#include "compiler/formats/pytorch/pickle/pickle_machine.h"

#include <llvm/ADT/StringRef.h>

#include "compiler/support/error.h"

namespace ucp::pytorch {
namespace {

constexpr std::uint8_t kStop = '.';

}  // namespace

// The instructions of pickletools, by their code. An absent one is refused: EXT1/2/4 and PERSID name things outside the
// file; INST, OBJ, STRING and UNICODE are of protocols 0 and 1; NEXT_BUFFER and READONLY_BUFFER need data from
// elsewhere.
const PickleMachine::Instructions& PickleMachine::AllInstructions() {
  using M = PickleMachine;
  static const Instructions table = [] {
    Instructions all{};
    const auto set = [&all](int byte, Instruction instruction) { all[static_cast<std::size_t>(byte)] = instruction; };
    set(0x80, &M::Protocol), set(0x95, &M::Frame);
    set('(', &M::Mark), set('0', &M::Discard), set('1', &M::DiscardToMark), set('2', &M::Duplicate);
    set('q', &M::MemoizeAt1), set('r', &M::MemoizeAt4), set('p', &M::MemoizeAtText), set(0x94, &M::MemoizeNext);
    set('h', &M::Recall1), set('j', &M::Recall4), set('g', &M::RecallText);
    set('N', &M::PushNone), set(0x88, &M::PushTrue), set(0x89, &M::PushFalse);
    set('K', &M::PushInteger1), set('M', &M::PushInteger2), set('J', &M::PushInteger4);
    set('I', &M::PushIntegerText), set('L', &M::PushLongText), set(0x8a, &M::PushLong1), set(0x8b, &M::PushLong4);
    set('G', &M::PushDouble), set('F', &M::PushDoubleText);
    set(0x8c, &M::PushText1), set('X', &M::PushText4), set(0x8d, &M::PushText8);
    set('U', &M::PushOldString1), set('T', &M::PushOldString4);
    set('C', &M::PushBytes1), set('B', &M::PushBytes4), set(0x8e, &M::PushBytes8), set(0x96, &M::PushByteArray8);
    set(']', &M::PushEmptyList), set('}', &M::PushEmptyDict), set(')', &M::PushEmptyTuple), set(0x8f, &M::PushEmptySet);
    set(0x85, &M::MakeTuple1), set(0x86, &M::MakeTuple2), set(0x87, &M::MakeTuple3), set('t', &M::MakeTupleToMark);
    set('l', &M::MakeListToMark), set('d', &M::MakeDictToMark), set(0x91, &M::MakeFrozenSetToMark);
    set('a', &M::AppendOne), set('e', &M::AppendToMark), set(0x90, &M::AddToSet);
    set('s', &M::SetOne), set('u', &M::SetToMark);
    set('c', &M::PushGlobal), set(0x93, &M::PushStackGlobal);
    set('R', &M::Reduce), set(0x81, &M::NewObject), set(0x92, &M::NewObjectWithKeywords), set('b', &M::Build);
    set('Q', &M::PersistentId);
    return all;
  }();
  return table;
}

// Those of protocols 0 and 1 too, but for what names things outside the file.
const PickleMachine::Instructions& PickleMachine::ScannedInstructions() {
  using M = PickleMachine;
  static const Instructions table = [] {
    Instructions all = AllInstructions();
    all['S'] = &M::PushStringLine, all['V'] = &M::PushTextLine, all['P'] = &M::PersistentIdLine;
    all['i'] = &M::MakeInstance, all['o'] = &M::MakeInstanceToMark;
    return all;
  }();
  return table;
}

llvm::Error PickleMachine::Scan() {
  if (llvm::Error error = ExecuteAll()) {
    return AddContext(std::move(error), fmt::format("byte {} of the pickle", instruction_offset_));
  }
  return llvm::Error::success();
}

llvm::Expected<Pickle> PickleMachine::Run() {
  if (llvm::Error error = ExecuteAll()) {
    return AddContext(std::move(error), fmt::format("byte {} of the pickle", instruction_offset_));
  }
  Pickle pickle;
  pickle.root = stack_.back();
  pickle.storages = std::move(storages_);
  stack_.clear();
  memo_.clear();
  UCP_RETURN_IF_ERROR(builder_.Finish(pickle.root, limits_.depth));
  return pickle;
}

llvm::Error PickleMachine::CheckBeginning() const {
  if (bytes_.size() > limits_.bytes) {
    return Fail(ErrorCode::kUnsupported, "the pickle has {} bytes, more than the {} that are read", bytes_.size(),
                limits_.bytes);
  }
  if (!scans_ && (bytes_.empty() || bytes_[0] != '\x80')) {
    return Fail(ErrorCode::kBadData, "it does not begin as a pickle of protocol 2 to 5 does");
  }
  return llvm::Error::success();
}

llvm::Error PickleMachine::ExecuteAll() {
  UCP_RETURN_IF_ERROR(CheckBeginning());
  const Instructions& instructions = scans_ ? ScannedInstructions() : AllInstructions();
  while (true) {
    instruction_offset_ = offset_;
    if (offset_ == bytes_.size()) return TakeBytes(1).takeError();
    const auto code = static_cast<std::uint8_t>(bytes_[offset_++]);
    if (code == kStop) break;
    const Instruction instruction = instructions[code];
    if (instruction == nullptr) {
      odd_instruction_ = fmt::format("0x{:02x} at byte {}", code, instruction_offset_);
      return Fail(ErrorCode::kBadData, "the instruction 0x{:02x} is none of those that build plain data", code);
    }
    UCP_RETURN_IF_ERROR((this->*instruction)());
    UCP_RETURN_IF_ERROR(CheckSize());
  }
  if (stack_.size() != 1 || !marks_.empty()) {
    return Fail(ErrorCode::kBadData, "the pickle ends with {} values and {} open groups instead of one value",
                stack_.size(), marks_.size());
  }
  return llvm::Error::success();
}

// A value takes 56 to 200 bytes here and, with its place in a memo or a list, at least two in an honest pickle.
llvm::Error PickleMachine::CheckSize() {
  constexpr std::size_t kAlwaysServed = 65'536;
  if (builder_.count() <= kAlwaysServed + offset_ / 2) return llvm::Error::success();
  return Fail(ErrorCode::kBadData, "the pickle makes {} objects in {} bytes, more than any honest one",
              builder_.count(), offset_);
}

llvm::Error PickleMachine::CountCopy(std::size_t bytes) {
  constexpr std::size_t kAlwaysServed = 65'536;
  copied_bytes_ += bytes;
  if (copied_bytes_ <= kAlwaysServed + bytes_.size()) return llvm::Error::success();
  return Fail(ErrorCode::kBadData,
              "the pickle of {} bytes uses the same text for more names or bytes than any honest one", bytes_.size());
}

llvm::Expected<std::string_view> PickleMachine::TakeBytes(std::uint64_t count) {
  if (count > bytes_.size() - offset_) {
    missing_bytes_ = count - (bytes_.size() - offset_);
    return Fail(ErrorCode::kBadData, "{} bytes are announced and {} are left", count, bytes_.size() - offset_);
  }
  const std::string_view taken = bytes_.substr(offset_, count);
  offset_ += count;
  return taken;
}

llvm::Expected<std::string_view> PickleMachine::TakeLine() {
  const std::size_t end = bytes_.find('\n', offset_);
  if (end == std::string_view::npos) {
    missing_bytes_ = 1;
    return Fail(ErrorCode::kBadData, "a line does not end");
  }
  const std::string_view line = bytes_.substr(offset_, end - offset_);
  offset_ = end + 1;
  return line;
}

llvm::Expected<std::uint64_t> PickleMachine::TakeUnsigned(int width) {
  const auto count = static_cast<std::size_t>(width);
  if (count > bytes_.size() - offset_) return TakeBytes(count).takeError();
  std::uint64_t value = 0;
  for (std::size_t i = count; i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(bytes_[offset_ + i]);
  offset_ += count;
  return value;
}

llvm::Expected<std::string_view> PickleMachine::TakeCounted(int width) {
  UCP_ASSIGN_OR_RETURN(const std::uint64_t count, TakeUnsigned(width));
  return TakeBytes(count);
}

llvm::Error PickleMachine::CheckHolds(std::size_t values) const {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() >= floor + values) return llvm::Error::success();
  return Fail(ErrorCode::kBadData, "a value is taken from an empty stack");
}

llvm::Expected<ValuePtr> PickleMachine::Top() {
  UCP_RETURN_IF_ERROR(CheckHolds(1));
  return stack_.back();
}

llvm::Expected<ValuePtr> PickleMachine::Pop() {
  UCP_RETURN_IF_ERROR(CheckHolds(1));
  ValuePtr value = std::move(stack_.back());
  stack_.pop_back();
  return value;
}

llvm::Expected<std::vector<ValuePtr>> PickleMachine::PopToMark() {
  if (marks_.empty()) return Fail(ErrorCode::kBadData, "a group of values is taken and none was begun");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<ValuePtr> values(std::make_move_iterator(begin), std::make_move_iterator(stack_.end()));
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return values;
}

llvm::Expected<std::vector<Entry>> PickleMachine::PopEntriesToMark() {
  UCP_ASSIGN_OR_RETURN(std::vector<ValuePtr> values, PopToMark());
  if (values.size() % 2 != 0) {
    return Fail(ErrorCode::kBadData, "a group of {} values is not made of keys and values", values.size());
  }
  std::vector<Entry> entries;
  entries.reserve(values.size() / 2);
  for (std::size_t i = 0; i < values.size(); i += 2)
    entries.push_back({std::move(values[i]), std::move(values[i + 1])});
  return entries;
}

llvm::Error PickleMachine::Protocol() {
  UCP_ASSIGN_OR_RETURN(const std::uint64_t protocol, TakeUnsigned(1));
  if (instruction_offset_ == 0 && protocol >= 2 && protocol <= 5) return llvm::Error::success();
  if (scans_ && protocol <= 5) return llvm::Error::success();  // Python reads it anywhere.
  return Fail(ErrorCode::kBadData, "it says protocol {}; protocols 2 to 5 are read, and said once at the beginning",
              protocol);
}

// Frames only tell a reader how much to buffer.
llvm::Error PickleMachine::Frame() {
  UCP_ASSIGN_OR_RETURN(const std::uint64_t count, TakeUnsigned(8));
  if (count <= bytes_.size() - offset_) return llvm::Error::success();
  missing_bytes_ = count - (bytes_.size() - offset_);
  return Fail(ErrorCode::kBadData, "{} bytes are announced and {} are left", count, bytes_.size() - offset_);
}

llvm::Error PickleMachine::Mark() {
  marks_.push_back(stack_.size());
  return llvm::Error::success();
}

llvm::Error PickleMachine::Discard() {
  UCP_ASSIGN_OR_RETURN([[maybe_unused]] const ValuePtr value, Pop());
  return llvm::Error::success();
}

llvm::Error PickleMachine::DiscardToMark() {
  UCP_ASSIGN_OR_RETURN([[maybe_unused]] const auto values, PopToMark());
  return llvm::Error::success();
}

llvm::Error PickleMachine::Duplicate() {
  UCP_ASSIGN_OR_RETURN(ValuePtr value, Top());
  return Push(std::move(value));
}

// Picklers number densely, so a number is never larger than the count of bytes so far; this bounds the memo.
llvm::Error PickleMachine::Memoize(std::uint64_t number) {
  UCP_RETURN_IF_ERROR(CheckHolds(1));
  if (number > offset_) {
    return Fail(ErrorCode::kBadData, "an object is given the number {}, beyond the {} bytes before it", number,
                offset_);
  }
  if (number == memo_.size()) {  // As nearly always.
    memo_.push_back(stack_.back());
    ++memoized_;
    return llvm::Error::success();
  }
  if (number > memo_.size()) memo_.resize(number + 1);
  if (!memo_[number]) ++memoized_;
  memo_[number] = stack_.back();
  return llvm::Error::success();
}

llvm::Error PickleMachine::MemoizeNext() { return Memoize(memoized_); }

llvm::Error PickleMachine::MemoizeAt1() {
  UCP_ASSIGN_OR_RETURN(const std::uint64_t number, TakeUnsigned(1));
  return Memoize(number);
}

llvm::Error PickleMachine::MemoizeAt4() {
  UCP_ASSIGN_OR_RETURN(const std::uint64_t number, TakeUnsigned(4));
  return Memoize(number);
}

namespace {

llvm::Expected<std::uint64_t> NumberInLine(std::string_view line) {
  std::uint64_t number = 0;
  if (llvm::StringRef(line).getAsInteger(10, number)) {
    return Fail(ErrorCode::kBadData, "an object's number is not written as a number");
  }
  return number;
}

}  // namespace

llvm::Error PickleMachine::MemoizeAtText() {
  UCP_ASSIGN_OR_RETURN(const std::string_view line, TakeLine());
  UCP_ASSIGN_OR_RETURN(const std::uint64_t number, NumberInLine(line));
  return Memoize(number);
}

llvm::Error PickleMachine::Recall(std::uint64_t number) {
  if (number < memo_.size() && memo_[number]) return Push(memo_[number]);
  return Fail(ErrorCode::kBadData, "object number {} is named, and no object has that number", number);
}

llvm::Error PickleMachine::Recall1() {
  UCP_ASSIGN_OR_RETURN(const std::uint64_t number, TakeUnsigned(1));
  return Recall(number);
}

llvm::Error PickleMachine::Recall4() {
  UCP_ASSIGN_OR_RETURN(const std::uint64_t number, TakeUnsigned(4));
  return Recall(number);
}

llvm::Error PickleMachine::RecallText() {
  UCP_ASSIGN_OR_RETURN(const std::string_view line, TakeLine());
  UCP_ASSIGN_OR_RETURN(const std::uint64_t number, NumberInLine(line));
  return Recall(number);
}

}  // namespace ucp::pytorch
