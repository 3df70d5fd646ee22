// The stack machine that a pickle is a program for: a stack, marks on it that say where a group of values begins, and a
// memo of values by number. Each instruction is a function here; the table in pickle_machine.cpp is the allow-list.
#pragma once

#include <llvm/Support/Error.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/formats/pytorch/pickle/pickle_reader.h"
#include "compiler/formats/pytorch/pickle/pickle_scan.h"
#include "compiler/formats/pytorch/values/value.h"
#include "compiler/formats/pytorch/values/value_builder.h"

namespace ucp::pytorch {

class PickleMachine {
 public:
  enum class Use {
    kRead,
    kScan,  // pickle_scan.h: nothing is refused for what it means, and all that is named or made is noted.
  };

  PickleMachine(std::string_view bytes, const PickleLimits& limits, Use use = Use::kRead)
      : bytes_(bytes), limits_(limits), scans_(use == Use::kScan) {}

  // Executes the whole program, up to its end, which need not be that of the bytes. Call once, or else Scan().
  llvm::Expected<Pickle> Run();
  [[nodiscard]] llvm::Error Scan();
  const std::vector<MadeObject>& made() const { return made_; }
  const std::string& odd_instruction() const { return odd_instruction_; }
  // Returns the result of the program; null before its end.
  const Value* root() const { return stack_.size() == 1 ? stack_.front().get() : nullptr; }
  std::size_t bytes_read() const { return offset_; }
  // Returns how many bytes more than there are the instruction that failed announces; 0 if it failed otherwise.
  std::uint64_t missing_bytes() const { return missing_bytes_; }

 private:
  using Instruction = llvm::Error (PickleMachine::*)();
  using Instructions = std::array<Instruction, 256>;  // By their code.
  static const Instructions& AllInstructions();
  static const Instructions& ScannedInstructions();

  llvm::Error ExecuteAll();
  llvm::Error CheckBeginning() const;
  llvm::Error CheckSize();
  // Called before text that the memo may name again and again is copied; all copies together stay below the pickle's
  // size.
  llvm::Error CountCopy(std::size_t bytes);

  // Reading the program: the next bytes, which must be there.
  llvm::Expected<std::string_view> TakeBytes(std::uint64_t count);
  llvm::Expected<std::string_view> TakeLine();
  llvm::Expected<std::uint64_t> TakeUnsigned(int width);    // Little-endian, 1 to 8 bytes.
  llvm::Expected<std::string_view> TakeCounted(int width);  // A count of that width, then as many bytes.

  // The stack. It is empty at the last mark.
  llvm::Error CheckHolds(std::size_t values) const;
  llvm::Error Push(ValuePtr value) {
    stack_.push_back(std::move(value));
    return llvm::Error::success();
  }
  template <typename T>
  llvm::Error PushNew(T content) {
    return Push(builder_.New(std::move(content)));
  }
  llvm::Expected<ValuePtr> Pop();
  llvm::Expected<ValuePtr> Top();
  llvm::Expected<std::vector<ValuePtr>> PopToMark();
  llvm::Expected<std::vector<Entry>> PopEntriesToMark();

  // pickle_machine.cpp: the program itself, the stack, the memo.
  llvm::Error Protocol();
  llvm::Error Frame();
  llvm::Error Mark();
  llvm::Error Discard();
  llvm::Error DiscardToMark();
  llvm::Error Duplicate();
  llvm::Error Memoize(std::uint64_t number);
  llvm::Error MemoizeNext();
  llvm::Error MemoizeAt1();
  llvm::Error MemoizeAt4();
  llvm::Error MemoizeAtText();
  llvm::Error Recall(std::uint64_t number);
  llvm::Error Recall1();
  llvm::Error Recall4();
  llvm::Error RecallText();

  // pickle_scalars.cpp.
  llvm::Error PushNone();
  llvm::Error PushTrue();
  llvm::Error PushFalse();
  llvm::Error PushInteger(std::int64_t value);
  llvm::Error PushInteger1();
  llvm::Error PushInteger2();
  llvm::Error PushInteger4();
  llvm::Error PushIntegerText();
  llvm::Error PushLongText();
  llvm::Error PushLong(std::string_view twos_complement);
  llvm::Error PushLong1();
  llvm::Error PushLong4();
  llvm::Error PushDouble();
  llvm::Error PushDoubleText();
  llvm::Error PushText(std::string_view utf8);
  llvm::Error PushText1();
  llvm::Error PushText4();
  llvm::Error PushText8();
  llvm::Error PushOldString(std::string_view bytes);
  llvm::Error PushOldString1();
  llvm::Error PushOldString4();
  llvm::Error PushBytes1();
  llvm::Error PushBytes4();
  llvm::Error PushBytes8();
  llvm::Error PushByteArray8();

  // pickle_containers.cpp.
  llvm::Error PushEmptyList();
  llvm::Error PushEmptyDict();
  llvm::Error PushEmptyTuple();
  llvm::Error PushEmptySet();
  llvm::Error MakeTupleOf(std::size_t count);
  llvm::Error MakeTuple1();
  llvm::Error MakeTuple2();
  llvm::Error MakeTuple3();
  llvm::Error MakeTupleToMark();
  llvm::Error MakeListToMark();
  llvm::Error MakeDictToMark();
  llvm::Error MakeFrozenSetToMark();
  llvm::Error AppendTo(const ValuePtr& target, std::vector<ValuePtr> items);
  llvm::Error AppendOne();
  llvm::Error AppendToMark();
  llvm::Error AddToSet();
  llvm::Error SetIn(const ValuePtr& target, std::vector<Entry> entries);
  llvm::Error SetOne();
  llvm::Error SetToMark();

  // pickle_objects.cpp.
  llvm::Error PushGlobal();
  llvm::Error PushStackGlobal();
  llvm::Error Reduce();
  llvm::Error NewObject();
  llvm::Error NewObjectWithKeywords();
  llvm::Error Build();
  llvm::Error PersistentId();
  llvm::Error PushMade(ValuePtr value, ValuePtr callable);
  ValuePtr NewCall(std::string_view module, std::string_view name, std::vector<ValuePtr> arguments);

  // pickle_scan.cpp: instructions that torch.save never writes.
  llvm::Error PushStringLine();
  llvm::Error PushTextLine();
  llvm::Error PersistentIdLine();
  llvm::Error MakeInstance();
  llvm::Error MakeInstanceToMark();
  llvm::Error NoteOdd(std::string_view instruction);

  std::string_view bytes_;
  PickleLimits limits_;
  bool scans_ = false;
  std::string odd_instruction_;
  std::size_t offset_ = 0;
  std::size_t instruction_offset_ = 0;
  std::uint64_t missing_bytes_ = 0;
  std::size_t copied_bytes_ = 0;

  ValueBuilder builder_;          // Before what refers to its values, so that it is destroyed after them.
  std::vector<MadeObject> made_;  // Only if it scans.
  std::vector<ValuePtr> stack_;
  std::vector<std::size_t> marks_;  // Sizes of the stack.
  std::vector<ValuePtr> memo_;      // Null where nothing was put.
  std::size_t memoized_ = 0;
  std::unordered_map<std::string, std::shared_ptr<const Storage>> storages_by_key_;
  std::vector<std::shared_ptr<const Storage>> storages_;
};

}  // namespace ucp::pytorch
