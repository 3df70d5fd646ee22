// The objects that pickles of PyTorch, DeepSpeed and the frameworks around it hold: the one list of objects that are
// written again, built for an engine, and passed by `ucprun inspect --objects` (docs/security.md shows it). A pickle
// makes an object by calling a function that it names, so a name alone proves nothing: each entry also says in which
// form its framework writes the object, down to the types of the arguments. The entries stand in known_table.cpp.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/formats/pytorch/values/value.h"

namespace ucp::objects {

// The parts of an object that may be values of any known kind. All others are fixed by its form.
struct OpenParts {
  bool arguments = false;
  bool items = false;
  bool entries = false;
  bool state = false;
};

struct KnownObject {
  std::string_view module;  // As Python 3 names it.
  std::string_view name;
  bool (*fits)(const KnownObject& known, const pytorch::Call& call);
  std::vector<std::string_view> words = {};  // The attributes or the members that there are; empty: any.
  OpenParts open = {};
  bool is_for_scans = false;  // A file that is read holds it; it is never written again.
};

enum class KnownFor { kWriting, kScans };

// Returns those that are made by a call, sorted by module and name.
std::span<const KnownObject> AllKnownObjects();

class KnownObjects {
 public:
  // `keep`: "module.name" of objects that the user vouches for, in any form. Must outlive this object.
  explicit KnownObjects(std::span<const std::string> keep = {}, KnownFor use = KnownFor::kWriting)
      : keep_(keep), use_(use) {}

  bool IsKept(const pytorch::Global& global) const;
  // Whether a class or function of this name makes a known object, is a known value itself, or is kept.
  bool KnowsName(const pytorch::Global& global) const;

  // Returns whether this one value is known, independent of the values in it.
  bool IsKnown(const pytorch::Value& value) const;
  // Appends the contents that must also be known. Call with one that is known.
  void AppendOpen(const pytorch::Value& value, std::vector<const pytorch::Value*>& values) const;
  // Returns the open parts of a call that is known; nothing if it is kept, and all of them are.
  std::optional<OpenParts> OpenPartsOf(const pytorch::Call& call) const;

  // Returns the first value that is not known, in `root` or below it; null if there is none. Linear.
  const pytorch::Value* FindUnknown(const pytorch::Value& root) const;

 private:
  std::span<const std::string> keep_;
  KnownFor use_;
};

// "builtins.set" also of Python 2's `__builtin__.set`, "numpy._core.multiarray.scalar" also of numpy 1's.
std::string NameOf(const pytorch::Global& global);
// Returns whether a class or function of this name makes a known object that is written again, or is a known value
// itself.
bool IsKnownName(const pytorch::Global& global);
bool IsKnownName(const std::string& name);  // By NameOf().

}  // namespace ucp::objects
