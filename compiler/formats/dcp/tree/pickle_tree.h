// The values of a pickle in little memory and in one pass. Metadata of a million chunks has sixty million instructions:
// a value takes 12 bytes here, equal small integers are one, and texts stay where they are in the pickle. The pickles
// of tensors and of everything else have a reader that knows more (compiler/formats/pytorch); this one knows what
// metadata is made of.
//
// Nothing is imported or called: an object is the call that would make it. A list can hold itself, so a function that
// follows values goes to a depth that it knows.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ucp::dcp {

class PickleTree {
 public:
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInteger,  // Of 64 bits.
    kText,
    kOther,  // A float, bytes, a larger integer.
    kTuple,
    kList,
    kDict,
    kGlobal,
    kCall,  // callable(*arguments), and perhaps a state. Items and entries of its own are not kept.
  };
  using Id = std::uint32_t;
  static constexpr Id kNothing = 0xffffffff;

  // Protocols 2 to 5. `pickle` must outlive the tree. Time and memory are linear: at most 64 bytes for each of the
  // pickle. Fails (kBadData) for anything but one pickle of data, with the byte.
  static llvm::Expected<PickleTree> Read(std::string_view pickle);

  Id root() const { return root_; }
  // Returns whether it names a class or a function anywhere, or makes an object.
  bool HasObjects() const;
  Kind kind(Id id) const { return nodes_[id].kind; }

  // Returns nothing of other kinds.
  std::optional<std::string_view> Text(Id id) const;
  std::optional<std::int64_t> Integer(Id id) const;
  bool IsNone(Id id) const { return kind(id) == Kind::kNone; }

  // Returns the module of a global.
  std::string_view Module(Id id) const { return TextOf(nodes_[id].a); }
  std::string_view Name(Id id) const { return TextOf(nodes_[id].b); }

  // Returns the callable of a call.
  Id Callable(Id id) const { return calls_[nodes_[id].a].callable; }
  Id Arguments(Id id) const { return calls_[nodes_[id].a].arguments; }
  Id State(Id id) const { return calls_[nodes_[id].a].state; }  // kNothing if there is none.

  // Calls `visit` for each item of a tuple or a list, or for each key and its value of a dict, until it returns false.
  void ForEach(Id id, llvm::function_ref<bool(Id)> visit) const;
  void ForEachEntry(Id id, llvm::function_ref<bool(Id key, Id value)> visit) const;
  std::size_t Count(Id id) const;  // Of a dict its keys and its values.

 private:
  friend class PickleTreeReader;

  // Of a list or a dict: its first and its last segment. Of a tuple: its first item, and how many there are. Of a text:
  // where it begins and how long it is.
  struct Node {
    Kind kind = Kind::kNone;
    std::uint32_t a = 0;
    std::uint32_t b = 0;
  };
  struct Call {
    Id callable = kNothing;
    Id arguments = kNothing;
    Id state = kNothing;
  };
  // Items that were added at once.
  struct Segment {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    std::uint32_t next = kNothing;
  };

  std::string_view TextOf(Id id) const { return pickle_.substr(nodes_[id].a, nodes_[id].b); }

  std::string_view pickle_;
  std::vector<Node> nodes_;
  std::vector<Call> calls_;
  std::vector<Segment> segments_;
  std::vector<Id> items_;
  Id root_ = kNothing;
};

}  // namespace ucp::dcp
