// The stack machine of pickles, with one function for each kind of instruction. The table at the end is the list of
// those that are known.
#include <fmt/format.h>

#include <array>
#include <optional>

#include "compiler/formats/dcp/tree/pickle_tree.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp::dcp {

class PickleTreeReader {
 public:
  explicit PickleTreeReader(std::string_view pickle) {
    tree_.pickle_ = pickle;
    // Metadata of many chunks takes about as much. Large tables are then not moved as they grow.
    tree_.nodes_.reserve(pickle.size() / kBytesOfNode);
    tree_.items_.reserve(pickle.size() / kBytesOfNode);
    memo_.reserve(pickle.size() / kBytesOfNode);
  }

  llvm::Expected<PickleTree> Run() {
    if (llvm::Error error = Execute()) {
      return AddContext(std::move(error), fmt::format("byte {} of the pickle", begin_));
    }
    return std::move(tree_);
  }

 private:
  using Id = PickleTree::Id;
  using Kind = PickleTree::Kind;
  // Whether it went well; why not says `problem_`.
  using Instruction = bool (PickleTreeReader::*)(std::uint8_t code);

  static const std::array<Instruction, 256>& Table();

  static constexpr std::size_t kBytesOfNode = 8;
  static constexpr std::int64_t kSmallIntegers = 1 << 16;

  llvm::Error Execute() {
    constexpr std::uint8_t kStop = '.';
    constexpr std::size_t kOften = 1 << 20;
    if (!bytes().starts_with('\x80')) return Refuse("it does not begin as a pickle of protocol 2 to 5 does");
    const std::array<Instruction, 256>& table = Table();
    for (std::size_t count = 0;; ++count) {
      if (count % kOften == 0) UCP_RETURN_IF_ERROR(CheckInterrupted());
      begin_ = offset_;
      if (offset_ == bytes().size()) return Refuse("the pickle ends too early");
      const auto code = static_cast<std::uint8_t>(bytes()[offset_++]);
      if (code == kStop) break;
      if (const std::optional<bool> done = ExecuteOften(code)) {
        if (*done) continue;
        return Refuse(problem_);
      }
      const Instruction instruction = table[code];
      if (instruction == nullptr) {
        return Refuse(fmt::format("the instruction 0x{:02x} is none of those that build plain data", code));
      }
      if (!(this->*instruction)(code)) return Refuse(problem_);
    }
    if (stack_.size() != 1 || !marks_.empty()) return Refuse("the pickle does not end with one value");
    if (offset_ != bytes().size()) {
      return Refuse(fmt::format("the pickle ends here, and {} more bytes follow", bytes().size() - offset_));
    }
    tree_.root_ = stack_.back();
    return llvm::Error::success();
  }

  // The instructions of which metadata mostly consists: where the compiler knows which it is, nearly nothing is left of
  // a function. Returns nothing for others.
  std::optional<bool> ExecuteOften(std::uint8_t code) {
    switch (code) {
      case 0x94:
        return Memoize(0x94);
      case 'h':
        return Recall('h');
      case 'j':
        return Recall('j');
      case 'K':
        return ShortInteger('K');
      case 'M':
        return ShortInteger('M');
      case 'J':
        return ShortInteger('J');
      case '(':
        return Mark('(');
      case ')':
        return Empty(')');
      case '}':
        return Empty('}');
      case 0x85:
        return ShortTuple(0x85);
      case 0x86:
        return ShortTuple(0x86);
      case 'R':
        return Call('R');
      case 0x81:
        return Call(0x81);
      case 'u':
        return AddToMark('u');
      case 'b':
        return Build('b');
      default:
        return std::nullopt;
    }
  }

  static llvm::Error Refuse(std::string_view why) { return Fail(ErrorCode::kBadData, "{}", why); }
  bool Problem(std::string_view why) {
    problem_ = why;
    return false;
  }

  std::string_view bytes() const { return tree_.pickle_; }

  // The pickle.
  bool Skip(std::uint64_t count) {
    if (count > bytes().size() - offset_) return Problem("it announces more bytes than there are");
    offset_ += count;
    return true;
  }
  bool TakeUnsigned(std::size_t width, std::uint64_t& value) {
    if (!Skip(width)) return false;
    value = 0;
    for (std::size_t i = 0; i < width; ++i) {
      value |= std::uint64_t{static_cast<std::uint8_t>(bytes()[offset_ - width + i])} << (8 * i);
    }
    return true;
  }
  bool TakeLine(std::string_view& line) {
    const std::size_t end = bytes().find('\n', offset_);
    if (end == std::string_view::npos) return Problem("a line does not end");
    line = bytes().substr(offset_, end - offset_);
    offset_ = end + 1;
    return true;
  }

  // The stack.
  bool Push(Id id) {
    stack_.push_back(id);
    return true;
  }
  Id New(Kind kind, std::uint32_t a, std::uint32_t b) {
    tree_.nodes_.push_back({kind, a, b});
    return static_cast<Id>(tree_.nodes_.size() - 1);
  }
  bool PushNew(Kind kind, std::uint32_t a = 0, std::uint32_t b = 0) { return Push(New(kind, a, b)); }
  // A text of the pickle, `bytes` before its place.
  Id NewText(std::size_t end, std::uint64_t count) {
    return New(Kind::kText, static_cast<std::uint32_t>(end - count), static_cast<std::uint32_t>(count));
  }
  bool Holds(std::size_t count) {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    return stack_.size() >= floor + count || Problem("a value is taken from an empty stack");
  }
  Id Pop() {
    const Id id = stack_.back();
    stack_.pop_back();
    return id;
  }

  // Moves the values above `begin` behind those of a container.
  void AddItems(Id container, std::size_t begin) {
    const auto count = static_cast<std::uint32_t>(stack_.size() - begin);
    if (count == 0) return;
    const auto first = static_cast<std::uint32_t>(tree_.items_.size());
    tree_.items_.insert(tree_.items_.end(), stack_.begin() + static_cast<std::ptrdiff_t>(begin), stack_.end());
    stack_.resize(begin);
    const auto segment = static_cast<std::uint32_t>(tree_.segments_.size());
    tree_.segments_.push_back({first, count, PickleTree::kNothing});
    PickleTree::Node& node = tree_.nodes_[container];
    if (node.a == PickleTree::kNothing) {
      node.a = segment;
    } else {
      tree_.segments_[node.b].next = segment;
    }
    node.b = segment;
  }
  bool PushContainer(Kind kind, std::size_t begin) {
    if (kind == Kind::kTuple) return PushTuple(begin);
    const Id id = New(kind, PickleTree::kNothing, PickleTree::kNothing);
    AddItems(id, begin);
    return Push(id);
  }
  bool PushTuple(std::size_t begin) {
    const auto count = static_cast<std::uint32_t>(stack_.size() - begin);
    if (count == 0) return PushShared(empty_tuple_, Kind::kTuple, 0);
    const auto first = static_cast<std::uint32_t>(tree_.items_.size());
    tree_.items_.insert(tree_.items_.end(), stack_.begin() + static_cast<std::ptrdiff_t>(begin), stack_.end());
    stack_.resize(begin);
    return PushNew(Kind::kTuple, first, count);
  }
  // A value that cannot change is there once.
  bool PushShared(Id& id, Kind kind, std::uint32_t a) {
    if (id == PickleTree::kNothing) id = New(kind, a, 0);
    return Push(id);
  }
  bool PopMark(std::size_t& begin) {
    if (marks_.empty()) return Problem("a group of values is taken and none was begun");
    begin = marks_.back();
    marks_.pop_back();
    return true;
  }
  // The target of items is below them. A call has some of its own, which nobody asks for.
  bool Extend(Kind kind, std::size_t begin) {
    if (begin == 0 || (!marks_.empty() && marks_.back() == begin)) return Problem("nothing is there to be filled");
    const Id target = stack_[begin - 1];
    if (kind == Kind::kDict && (stack_.size() - begin) % 2 != 0) return Problem("a key has no value");
    if (tree_.kind(target) == kind) {
      AddItems(target, begin);
    } else if (tree_.kind(target) == Kind::kCall) {
      stack_.resize(begin);
    } else {
      return Problem("items are put into a value that does not take them");
    }
    return true;
  }

  // One function for each kind of instruction.
  bool Protocol(std::uint8_t) {
    std::uint64_t protocol = 0;
    if (!TakeUnsigned(1, protocol)) return false;
    if (begin_ == 0 && protocol >= 2 && protocol <= 5) return true;
    return Problem("protocols 2 to 5 are read, and named once at the beginning");
  }
  bool Frame(std::uint8_t) {
    std::uint64_t count = 0;
    if (!TakeUnsigned(8, count)) return false;
    return count <= bytes().size() - offset_ || Problem("a frame is longer than the pickle");
  }
  bool Mark(std::uint8_t) {
    marks_.push_back(stack_.size());
    return true;
  }
  bool Discard(std::uint8_t code) {
    std::size_t begin = 0;
    if (code == '0' ? !Holds(1) : !PopMark(begin)) return false;
    stack_.resize(code == '0' ? stack_.size() - 1 : begin);
    return true;
  }
  bool Duplicate(std::uint8_t) { return Holds(1) && Push(stack_.back()); }

  bool Memoize(std::uint8_t code) {
    std::uint64_t number = memo_.size();
    if (code != 0x94 && !TakeUnsigned(code == 'q' ? 1 : 4, number)) return false;
    if (!Holds(1)) return false;
    if (number > offset_) return Problem("a value gets a number beyond the bytes before it");
    if (number > memo_.size()) memo_.resize(number, PickleTree::kNothing);
    if (number == memo_.size()) memo_.push_back(PickleTree::kNothing);
    memo_[number] = stack_.back();
    return true;
  }
  bool Recall(std::uint8_t code) {
    std::uint64_t number = 0;
    if (!TakeUnsigned(code == 'h' ? 1 : 4, number)) return false;
    if (number < memo_.size() && memo_[number] != PickleTree::kNothing) return Push(memo_[number]);
    return Problem("a value is named by a number that none has");
  }

  bool Constant(std::uint8_t code) { return PushNew(code == 'N' ? Kind::kNone : Kind::kBool, code == 0x88 ? 1 : 0); }
  bool PushInteger(std::int64_t value) {
    if (value >= 0 && value < kSmallIntegers) {
      return PushShared(small_integers_[static_cast<std::size_t>(value)], Kind::kInteger,
                        static_cast<std::uint32_t>(value));
    }
    const auto bits = static_cast<std::uint64_t>(value);
    return PushNew(Kind::kInteger, static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32));
  }
  bool ShortInteger(std::uint8_t code) {
    std::uint64_t value = 0;
    if (!TakeUnsigned(code == 'K' ? 1 : code == 'M' ? 2 : 4, value)) return false;
    return PushInteger(code == 'J' ? static_cast<std::int32_t>(static_cast<std::uint32_t>(value))
                                   : static_cast<std::int64_t>(value));
  }
  // Two's complement.
  bool LongInteger(std::uint8_t code) {
    std::uint64_t count = 0;
    if (!TakeUnsigned(code == 0x8a ? 1 : 4, count) || !Skip(count)) return false;
    if (count > 8) return PushNew(Kind::kOther);
    std::uint64_t value = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      value |= std::uint64_t{static_cast<std::uint8_t>(bytes()[offset_ - count + i])} << (8 * i);
    }
    const bool is_negative = count > 0 && (static_cast<std::uint8_t>(bytes()[offset_ - 1]) & 0x80) != 0;
    if (is_negative && count < 8) value |= ~std::uint64_t{0} << (8 * count);
    return PushInteger(static_cast<std::int64_t>(value));
  }
  bool Real(std::uint8_t) { return Skip(8) && PushNew(Kind::kOther); }
  bool CountedText(std::uint8_t code) {
    std::uint64_t count = 0;
    if (!TakeUnsigned(code == 0x8c ? 1 : code == 'X' ? 4 : 8, count) || !Skip(count)) return false;
    return Push(NewText(offset_, count));
  }
  bool CountedBytes(std::uint8_t code) {
    std::uint64_t count = 0;
    if (!TakeUnsigned(code == 'C' || code == 'U' ? 1 : code == 'B' || code == 'T' ? 4 : 8, count)) return false;
    return Skip(count) && PushNew(Kind::kOther);
  }

  bool Empty(std::uint8_t code) {
    return PushContainer(code == ')' ? Kind::kTuple : code == '}' ? Kind::kDict : Kind::kList, stack_.size());
  }
  bool ShortTuple(std::uint8_t code) {
    const std::size_t count = code - std::size_t{0x84};
    return Holds(count) && PushContainer(Kind::kTuple, stack_.size() - count);
  }
  bool ToMark(std::uint8_t code) {
    std::size_t begin = 0;
    if (!PopMark(begin)) return false;
    if (code == 'd' && (stack_.size() - begin) % 2 != 0) return Problem("a key has no value");
    return PushContainer(code == 't' ? Kind::kTuple : code == 'd' ? Kind::kDict : Kind::kList, begin);
  }
  bool AddOne(std::uint8_t code) {
    const std::size_t count = code == 's' ? 2 : 1;
    return Holds(count + 1) && Extend(code == 's' ? Kind::kDict : Kind::kList, stack_.size() - count);
  }
  bool AddToMark(std::uint8_t code) {
    std::size_t begin = 0;
    return PopMark(begin) && Extend(code == 'u' ? Kind::kDict : Kind::kList, begin);
  }

  bool GlobalOfLines(std::uint8_t) {
    std::string_view module;
    std::string_view name;
    if (!TakeLine(module) || !TakeLine(name)) return false;
    const Id module_id = NewText(offset_ - name.size() - 2, module.size());
    return PushNew(Kind::kGlobal, module_id, NewText(offset_ - 1, name.size()));
  }
  bool GlobalOfStack(std::uint8_t) {
    if (!Holds(2)) return false;
    const Id name = Pop();
    const Id module = Pop();
    if (tree_.kind(name) != Kind::kText || tree_.kind(module) != Kind::kText) {
      return Problem("a class has no proper name");
    }
    return PushNew(Kind::kGlobal, module, name);
  }
  // Keywords of a new object (0x92) are not asked for.
  bool Call(std::uint8_t code) {
    if (!Holds(code == 0x92 ? 3 : 2)) return false;
    if (code == 0x92) Pop();
    PickleTree::Call call;
    call.arguments = Pop();
    call.callable = Pop();
    if (tree_.kind(call.arguments) != Kind::kTuple) return Problem("the arguments of a call are not a tuple");
    if (tree_.kind(call.callable) != Kind::kGlobal && tree_.kind(call.callable) != Kind::kCall) {
      return Problem("the callee is neither a class nor a function");
    }
    tree_.calls_.push_back(call);
    return PushNew(Kind::kCall, static_cast<std::uint32_t>(tree_.calls_.size() - 1));
  }
  bool Build(std::uint8_t) {
    if (!Holds(2)) return false;
    const Id state = Pop();
    if (tree_.kind(stack_.back()) != Kind::kCall) return Problem("a state is given to a value that is not an object");
    PickleTree::Call& call = tree_.calls_[tree_.nodes_[stack_.back()].a];
    if (call.state != PickleTree::kNothing) return Problem("an object is given a second state");
    call.state = state;
    return true;
  }

  PickleTree tree_;
  std::size_t offset_ = 0;  // Of the next byte.
  std::size_t begin_ = 0;   // Of this instruction.
  std::vector<Id> stack_;
  std::vector<std::size_t> marks_;
  std::vector<Id> memo_;
  std::vector<Id> small_integers_ = std::vector<Id>(kSmallIntegers, PickleTree::kNothing);
  Id empty_tuple_ = PickleTree::kNothing;
  std::string problem_;
};

// Instructions that name things outside of the pickle, and those of protocols 0 and 1, are absent.
const std::array<PickleTreeReader::Instruction, 256>& PickleTreeReader::Table() {
  using R = PickleTreeReader;
  static const std::array<Instruction, 256> table = [] {
    std::array<Instruction, 256> all{};
    const auto set = [&all](std::initializer_list<int> codes, Instruction instruction) {
      for (const int code : codes) all[static_cast<std::size_t>(code)] = instruction;
    };
    set({0x80}, &R::Protocol), set({0x95}, &R::Frame), set({'('}, &R::Mark), set({'0', '1'}, &R::Discard);
    set({'2'}, &R::Duplicate), set({'q', 'r', 0x94}, &R::Memoize), set({'h', 'j'}, &R::Recall);
    set({'N', 0x88, 0x89}, &R::Constant), set({'K', 'M', 'J'}, &R::ShortInteger), set({0x8a, 0x8b}, &R::LongInteger);
    set({'G'}, &R::Real), set({0x8c, 'X', 0x8d}, &R::CountedText);
    set({'C', 'B', 0x8e, 0x96, 'U', 'T'}, &R::CountedBytes);
    set({']', '}', ')', 0x8f}, &R::Empty), set({0x85, 0x86, 0x87}, &R::ShortTuple);
    set({'t', 'l', 'd', 0x91}, &R::ToMark), set({'a', 's'}, &R::AddOne), set({'e', 'u', 0x90}, &R::AddToMark);
    set({'c'}, &R::GlobalOfLines), set({0x93}, &R::GlobalOfStack);
    set({'R', 0x81, 0x92}, &R::Call), set({'b'}, &R::Build);
    return all;
  }();
  return table;
}

llvm::Expected<PickleTree> PickleTree::Read(std::string_view pickle) { return PickleTreeReader(pickle).Run(); }

}  // namespace ucp::dcp
