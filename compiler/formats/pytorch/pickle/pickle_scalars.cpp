// The instructions that push numbers, text and bytes.
#include <llvm/ADT/StringRef.h>

#include <array>
#include <bit>
#include <cstring>

#include "compiler/formats/pytorch/pickle/pickle_machine.h"
#include "compiler/formats/pytorch/values/utf8.h"
#include "compiler/support/error.h"

namespace ucp::pytorch {

llvm::Error PickleMachine::PushNone() { return Push(MakeNone()); }
llvm::Error PickleMachine::PushTrue() { return Push(MakeBool(true)); }
llvm::Error PickleMachine::PushFalse() { return Push(MakeBool(false)); }

// Small numbers are many; they are shared, which means nothing for a number.
llvm::Error PickleMachine::PushInteger(std::int64_t value) {
  constexpr std::int64_t kShared = 256;
  static const std::vector<ValuePtr> shared = [] {
    std::vector<ValuePtr> values;
    for (std::int64_t i = 0; i < kShared; ++i) values.push_back(MakeInteger(i));
    return values;
  }();
  if (value >= 0 && value < kShared) return Push(shared[static_cast<std::size_t>(value)]);
  return PushNew(value);
}

llvm::Error PickleMachine::PushInteger1() {
  UCP_ASSIGN_OR_RETURN(const std::uint64_t value, TakeUnsigned(1));
  return PushInteger(static_cast<std::int64_t>(value));
}

llvm::Error PickleMachine::PushInteger2() {
  UCP_ASSIGN_OR_RETURN(const std::uint64_t value, TakeUnsigned(2));
  return PushInteger(static_cast<std::int64_t>(value));
}

llvm::Error PickleMachine::PushInteger4() {
  UCP_ASSIGN_OR_RETURN(const std::uint64_t value, TakeUnsigned(4));
  return PushInteger(static_cast<std::int32_t>(static_cast<std::uint32_t>(value)));
}

llvm::Error PickleMachine::PushIntegerText() {
  UCP_ASSIGN_OR_RETURN(const std::string_view line, TakeLine());
  if (line == "00") return PushFalse();
  if (line == "01") return PushTrue();
  std::int64_t value = 0;
  if (llvm::StringRef(line).getAsInteger(10, value)) {
    return Fail(ErrorCode::kBadData, "an integer is not written as a number of 64 bits");
  }
  return PushInteger(value);
}

llvm::Error PickleMachine::PushLongText() {
  UCP_ASSIGN_OR_RETURN(std::string_view line, TakeLine());
  if (!line.empty() && line.back() == 'L') line.remove_suffix(1);
  std::int64_t value = 0;
  if (llvm::StringRef(line).getAsInteger(10, value)) {
    return Fail(ErrorCode::kBadData, "an integer is not written as a number of 64 bits");
  }
  return PushInteger(value);
}

// Two's complement, little-endian; no bytes mean 0. One integer has one form here, so bytes that only repeat the sign
// go.
llvm::Error PickleMachine::PushLong(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
  const auto repeats_sign = [&] {
    const std::size_t last = bytes.size() - 1;
    return byte(last) == ((byte(last - 1) & 0x80) != 0 ? 0xff : 0x00);
  };
  while (bytes.size() > 1 && repeats_sign()) bytes.remove_suffix(1);
  if (bytes.size() > sizeof(std::int64_t)) return PushNew(BigInteger{std::string(bytes)});
  std::uint64_t value = !bytes.empty() && (byte(bytes.size() - 1) & 0x80) != 0 ? ~std::uint64_t{0} : 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | byte(i);
  return PushInteger(static_cast<std::int64_t>(value));
}

llvm::Error PickleMachine::PushLong1() {
  UCP_ASSIGN_OR_RETURN(const std::string_view bytes, TakeCounted(1));
  return PushLong(bytes);
}

llvm::Error PickleMachine::PushLong4() {
  UCP_ASSIGN_OR_RETURN(const std::string_view bytes, TakeCounted(4));
  return PushLong(bytes);
}

llvm::Error PickleMachine::PushDouble() {
  UCP_ASSIGN_OR_RETURN(const std::string_view bytes, TakeBytes(8));
  std::uint64_t bits = 0;
  for (const char byte : bytes)
    bits = bits << 8 | static_cast<std::uint8_t>(byte);  // Big-endian, alone among them all.
  return PushNew(std::bit_cast<double>(bits));
}

llvm::Error PickleMachine::PushDoubleText() {
  UCP_ASSIGN_OR_RETURN(const std::string_view line, TakeLine());
  double value = 0;
  if (line.size() > 64 || llvm::StringRef(line).getAsDouble(value)) {
    return Fail(ErrorCode::kBadData, "a floating-point number is not written as one");
  }
  return PushNew(value);
}

llvm::Error PickleMachine::PushText(std::string_view utf8) {
  if (!IsPickleUtf8(utf8)) return Fail(ErrorCode::kBadData, "a text of {} bytes is not UTF-8", utf8.size());
  return PushNew(Text{std::string(utf8)});
}

llvm::Error PickleMachine::PushText1() {
  UCP_ASSIGN_OR_RETURN(const std::string_view utf8, TakeCounted(1));
  return PushText(utf8);
}

llvm::Error PickleMachine::PushText4() {
  UCP_ASSIGN_OR_RETURN(const std::string_view utf8, TakeCounted(4));
  return PushText(utf8);
}

llvm::Error PickleMachine::PushText8() {
  UCP_ASSIGN_OR_RETURN(const std::string_view utf8, TakeCounted(8));
  return PushText(utf8);
}

// Python 2's `str` was used for both.
llvm::Error PickleMachine::PushOldString(std::string_view bytes) {
  return IsPickleUtf8(bytes) ? PushText(bytes) : PushNew(Bytes{std::string(bytes)});
}

llvm::Error PickleMachine::PushOldString1() {
  UCP_ASSIGN_OR_RETURN(const std::string_view bytes, TakeCounted(1));
  return PushOldString(bytes);
}

llvm::Error PickleMachine::PushOldString4() {
  UCP_ASSIGN_OR_RETURN(const std::string_view bytes, TakeCounted(4));
  return PushOldString(bytes);
}

llvm::Error PickleMachine::PushBytes1() {
  UCP_ASSIGN_OR_RETURN(const std::string_view bytes, TakeCounted(1));
  return PushNew(Bytes{std::string(bytes)});
}

llvm::Error PickleMachine::PushBytes4() {
  UCP_ASSIGN_OR_RETURN(const std::string_view bytes, TakeCounted(4));
  return PushNew(Bytes{std::string(bytes)});
}

llvm::Error PickleMachine::PushBytes8() {
  UCP_ASSIGN_OR_RETURN(const std::string_view bytes, TakeCounted(8));
  return PushNew(Bytes{std::string(bytes)});
}

llvm::Error PickleMachine::PushByteArray8() {
  UCP_ASSIGN_OR_RETURN(const std::string_view bytes, TakeCounted(8));
  return Push(NewCall("builtins", "bytearray", {builder_.New(Bytes{std::string(bytes)})}));
}

}  // namespace ucp::pytorch
