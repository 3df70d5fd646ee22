// The instructions that name classes, call them and give objects their state. Nothing is called: a tensor's call is
// understood, `_codecs.encode` is turned into the bytes it means, and every other call is kept as what it is.
#include "compiler/formats/pytorch/pickle/pickle_machine.h"
#include "compiler/formats/pytorch/values/tensor_forms.h"
#include "compiler/formats/pytorch/values/utf8.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::pytorch {
namespace {

// Bytes at protocol 2: `_codecs.encode(text, 'latin1')`. The text, or nothing if it is another call.
std::optional<std::string_view> EncodedText(const Global& function, const Tuple& arguments) {
  if (function.module != "_codecs" || function.name != "encode" || arguments.items.size() != 2) return std::nullopt;
  if (AsText(*arguments.items[1]) != "latin1") return std::nullopt;
  return AsText(*arguments.items[0]);
}

// Python 2 made an OrderedDict from its pairs, Python 3 makes an empty one and sets its keys. The entries, or nothing.
std::optional<std::vector<Entry>> EntriesFromPairs(const Tuple& arguments) {
  std::vector<Entry> entries;
  const auto* pairs = arguments.items.size() == 1 ? Items(*arguments.items[0]) : nullptr;
  if (pairs == nullptr) return arguments.items.empty() ? std::optional(entries) : std::nullopt;
  for (const ValuePtr& pair : *pairs) {
    const auto* parts = Items(*pair);
    if (parts == nullptr || parts->size() != 2) return std::nullopt;
    entries.push_back({(*parts)[0], (*parts)[1]});
  }
  return entries;
}

// A name is written again on a line of its own.
bool IsPythonName(std::string_view name) {
  constexpr std::size_t kLongest = 1024;
  return !name.empty() && name.size() <= kLongest && name.find('\n') == std::string_view::npos && IsPickleUtf8(name);
}

}  // namespace

llvm::Error PickleMachine::PushGlobal() {
  UCP_ASSIGN_OR_RETURN(const std::string_view module, TakeLine());
  UCP_ASSIGN_OR_RETURN(const std::string_view name, TakeLine());
  if (!IsPythonName(module) || !IsPythonName(name)) return Fail(ErrorCode::kBadData, "a class has no proper name");
  return PushMade(builder_.New(Global{std::string(module), std::string(name)}), nullptr);
}

llvm::Error PickleMachine::PushStackGlobal() {
  UCP_ASSIGN_OR_RETURN(const ValuePtr name, Pop());
  UCP_ASSIGN_OR_RETURN(const ValuePtr module, Pop());
  const auto name_text = AsText(*name);
  const auto module_text = AsText(*module);
  if (!name_text || !module_text || !IsPythonName(*module_text) || !IsPythonName(*name_text)) {
    return Fail(ErrorCode::kBadData, "a class has no proper name");
  }
  UCP_RETURN_IF_ERROR(CountCopy(module_text->size() + name_text->size()));
  return PushMade(builder_.New(Global{std::string(*module_text), std::string(*name_text)}), nullptr);
}

llvm::Error PickleMachine::PushMade(ValuePtr value, ValuePtr callable) {
  if (scans_) made_.push_back({value, std::move(callable)});
  return Push(std::move(value));
}

ValuePtr PickleMachine::NewCall(std::string_view module, std::string_view name, std::vector<ValuePtr> arguments) {
  Call call;
  call.callable = builder_.New(Global{std::string(module), std::string(name)});
  call.arguments = builder_.New(Tuple{std::move(arguments)});
  return builder_.New(std::move(call));
}

llvm::Error PickleMachine::Reduce() {
  UCP_ASSIGN_OR_RETURN(const ValuePtr arguments, Pop());
  UCP_ASSIGN_OR_RETURN(const ValuePtr callable, Pop());
  const Tuple* tuple = arguments->As<Tuple>();
  const Global* function = callable->As<Global>();
  if (tuple == nullptr) return Fail(ErrorCode::kBadData, "the arguments of a call are not a tuple");
  if (function == nullptr && callable->As<Call>() == nullptr) {
    return Fail(ErrorCode::kBadData, "what is called is neither a class nor a function");
  }
  if (function != nullptr) {
    if (const auto text = EncodedText(*function, *tuple)) {
      UCP_RETURN_IF_ERROR(CountCopy(text->size()));
      if (auto bytes = Latin1Bytes(*text)) return PushMade(builder_.New(Bytes{*std::move(bytes)}), callable);
    }
    if (MakesTensor(*function)) {
      const bool takes_local = limits_.local_of_dtensors && MakesDTensor(*function, *tuple);
      llvm::Expected<Tensor> tensor = takes_local ? LocalOfDTensor(*tuple) : TensorFromCall(*function, *tuple);
      if (tensor) return PushMade(builder_.New(*std::move(tensor)), callable);
      if (!scans_) return tensor.takeError();
      llvm::consumeError(tensor.takeError());
    }
  }
  Call call;
  call.callable = callable;
  call.arguments = arguments;
  if (function != nullptr && function->module == "collections" && function->name == "OrderedDict") {
    auto entries = EntriesFromPairs(*tuple);
    if (!entries && !scans_) {
      return Fail(ErrorCode::kBadData, "an OrderedDict is made from something that is not a list of pairs");
    }
    if (entries) {
      UCP_RETURN_IF_ERROR(CountCopy(entries->size()));
      if (!tuple->items.empty()) call.arguments = builder_.New(Tuple{});
      call.entries = *std::move(entries);
    }
  }
  return PushMade(builder_.New(std::move(call)), callable);
}

llvm::Error PickleMachine::NewObject() {
  UCP_ASSIGN_OR_RETURN(const ValuePtr arguments, Pop());
  UCP_ASSIGN_OR_RETURN(const ValuePtr object_class, Pop());
  if (arguments->As<Tuple>() == nullptr || object_class->As<Global>() == nullptr) {
    return Fail(ErrorCode::kBadData, "an object is made from something that is not a class with arguments");
  }
  Call call;
  call.form = Call::Form::kNewObject;
  call.callable = object_class;
  call.arguments = arguments;
  return PushMade(builder_.New(std::move(call)), object_class);
}

llvm::Error PickleMachine::NewObjectWithKeywords() {
  UCP_ASSIGN_OR_RETURN(const ValuePtr keywords, Pop());
  const Dict* dict = keywords->As<Dict>();
  if (dict == nullptr || !dict->entries.empty()) {
    return Fail(ErrorCode::kUnsupported, "an object is made with keyword arguments, which is not served");
  }
  return NewObject();
}

llvm::Error PickleMachine::Build() {
  UCP_ASSIGN_OR_RETURN(ValuePtr state, Pop());
  UCP_ASSIGN_OR_RETURN(const ValuePtr target, Top());
  Call* call = ValueBuilder::Fillable<Call>(target);
  if (call == nullptr) return Fail(ErrorCode::kBadData, "a state is given to a value that is not an object");
  if (call->state) return Fail(ErrorCode::kBadData, "an object is given a second state");
  call->state = std::move(state);
  return llvm::Error::success();
}

llvm::Error PickleMachine::PersistentId() {
  UCP_ASSIGN_OR_RETURN(const ValuePtr id, Pop());
  llvm::Expected<Storage> described = StorageFromPersistentId(*id);
  if (!described && !scans_) return described.takeError();
  if (!described) {  // PyTorch's own kind or another, the pickle makes no object of it.
    llvm::consumeError(described.takeError());
    return PushNone();
  }
  Storage& storage = *described;
  const auto [place, is_new] = storages_by_key_.try_emplace(storage.key);
  if (is_new) {
    UCP_RETURN_IF_ERROR(CountCopy(storage.key.size() + storage.location.size()));
    place->second = std::make_shared<const Storage>(std::move(storage));
    storages_.push_back(place->second);
  } else if (const Storage& known = *place->second; known.dtype != storage.dtype || known.untyped != storage.untyped ||
                                                    known.elements != storage.elements ||
                                                    known.location != storage.location) {
    if (scans_) return PushNone();
    return Fail(ErrorCode::kBadData,
                "the storage `{:.80}` is described twice, with {} and with {} elements or otherwise", storage.key,
                known.elements, storage.elements);
  }
  return PushNew(StorageReference{place->second});
}

}  // namespace ucp::pytorch
