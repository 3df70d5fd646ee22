#include "compiler/formats/deepspeed/native/write/job/engine_config.h"

#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/support/error.h"
#include "compiler/support/json_text.h"

namespace ucp::deepspeed {
namespace {

using pytorch::ValuePtr;

constexpr int kMostDepth = 64;

// A number as Python reads it: with a point or an exponent a float.
llvm::Expected<ValuePtr> ToNumber(std::string_view word) {
  const char* end = word.data() + word.size();
  const std::string_view digits = word.substr(word.starts_with('-') ? 1 : 0);
  const bool is_number = word.find_first_not_of("-+.eE0123456789") == std::string_view::npos && !digits.empty() &&
                         digits.front() >= '0' && digits.front() <= '9' && word.back() >= '0' && word.back() <= '9';
  std::int64_t integer = 0;
  double number = 0;
  if (auto [last, error] = std::from_chars(word.data(), end, integer); is_number && last == end && error == std::errc())
    return pytorch::MakeInteger(integer);
  if (auto [last, error] = std::from_chars(word.data(), end, number); is_number && last == end && error == std::errc())
    return pytorch::MakeDouble(number);
  return Fail(ErrorCode::kBadData, "`{}` is none of its values", word.substr(0, 40));
}

llvm::Expected<ValuePtr> ReadValue(JsonReader& json, int depth) {
  if (depth < 0) return Fail(ErrorCode::kBadData, "it is nested deeper than {}", kMostDepth);
  switch (json.Next()) {
    case '{': {
      std::vector<pytorch::Entry> entries;
      UCP_RETURN_IF_ERROR(json.ReadObject([&](const std::string& key) -> llvm::Error {
        UCP_ASSIGN_OR_RETURN(ValuePtr value, ReadValue(json, depth - 1));
        entries.push_back({pytorch::MakeText(key), std::move(value)});
        return llvm::Error::success();
      }));
      return pytorch::MakeDict(std::move(entries));
    }
    case '[': {
      std::vector<ValuePtr> items;
      UCP_RETURN_IF_ERROR(json.ReadArray([&]() -> llvm::Error {
        UCP_ASSIGN_OR_RETURN(ValuePtr value, ReadValue(json, depth - 1));
        items.push_back(std::move(value));
        return llvm::Error::success();
      }));
      return pytorch::MakeList(std::move(items));
    }
    case '"': {
      UCP_ASSIGN_OR_RETURN(std::string text, json.ReadText());
      return pytorch::MakeText(std::move(text));
    }
    default:
      break;
  }
  UCP_ASSIGN_OR_RETURN(std::string_view word, json.ReadWord());
  if (word == "null") return pytorch::MakeNone();
  if (word == "true" || word == "false") return pytorch::MakeBool(word == "true");
  return ToNumber(word);
}

llvm::Expected<ValuePtr> ReadConfig(std::string_view text) {
  if (!IsUtf8(text)) return Fail(ErrorCode::kBadData, "it is not UTF-8");
  JsonReader json(text);
  UCP_ASSIGN_OR_RETURN(ValuePtr value, ReadValue(json, kMostDepth));
  UCP_RETURN_IF_ERROR(json.ReadEnd());
  if (value->As<pytorch::Dict>() == nullptr) return Fail(ErrorCode::kBadData, "it is not an object of settings");
  return value;
}

}  // namespace

llvm::Expected<EngineConfig> ParseEngineConfig(const JobConfig& job) {
  llvm::Expected<ValuePtr> value = ReadConfig(job.text);
  if (value) return EngineConfig{job.path, *value};
  return AddContext(value.takeError(), fmt::format("`{}` is not a DeepSpeed configuration in JSON", job.path));
}

}  // namespace ucp::deepspeed
