// The forms in which frameworks pickle the objects of known_table.cpp: whether a call is one that the framework
// itself would have written. Everything that is not an open part of the entry is compared here.
#pragma once

#include "compiler/formats/objects/known_objects.h"

namespace ucp::objects {

// Returns a name for the class or function as Python 3 and numpy 2 have it.
std::string_view ModuleOf(const pytorch::Global& global);

// None, bool, a number, a dtype.
bool IsPlainNumber(const pytorch::Value& value);

// object_forms.cpp.
bool IsMapping(const KnownObject& known, const pytorch::Call& call);      // OrderedDict()
bool IsDefaultDict(const KnownObject& known, const pytorch::Call& call);  // defaultdict(factory)
bool IsCounter(const KnownObject& known, const pytorch::Call& call);      // Counter(dict)
bool IsDeque(const KnownObject& known, const pytorch::Call& call);        // deque((), maxlen), then items
bool IsSet(const KnownObject& known, const pytorch::Call& call);          // set(list)
bool IsOfNumbers(const KnownObject& known, const pytorch::Call& call);    // range(0, 3, 1), slice(None, 3, None)
bool IsOfBytes(const KnownObject& known, const pytorch::Call& call);      // bytearray(bytes), bytes()
bool IsSize(const KnownObject& known, const pytorch::Call& call);         // torch.Size((2, 3))
bool IsDevice(const KnownObject& known, const pytorch::Call& call);       // torch.device('cuda', 0)
bool IsEnum(const KnownObject& known, const pytorch::Call& call);         // Class(2), Class('linear')
bool IsEnumMember(const KnownObject& known, const pytorch::Call& call);   // getattr(Class, 'gradients')
bool IsPath(const KnownObject& known, const pytorch::Call& call);         // PosixPath('a', 'b')
bool IsTensorCall(const KnownObject& known, const pytorch::Call& call);   // function(storage, …)
bool IsDTensorCall(const KnownObject& known, const pytorch::Call& call);  // of `torch.distributed.tensor.DTensor` alone
bool IsNamedTuple(const KnownObject& known, const pytorch::Call& call);   // Class.__new__(part, …), without a state
bool HasNumbers(const KnownObject& known, const pytorch::Call& call);     // Class.__new__(), then plain attributes
bool HasAttributes(const KnownObject& known, const pytorch::Call& call);  // the same, with any known values
bool HasParts(const KnownObject& known, const pytorch::Call& call);       // Class.__new__(), then a tuple as its state

// array_forms.cpp.
bool IsNumpyArray(const KnownObject& known, const pytorch::Call& call);   // _reconstruct(ndarray, (0,), b'b')
bool IsNumpyBuffer(const KnownObject& known, const pytorch::Call& call);  // _frombuffer(bytes, dtype, shape, 'C')
bool IsNumpyScalar(const KnownObject& known, const pytorch::Call& call);  // scalar(dtype, bytes)
bool IsNumpyDType(const KnownObject& known, const pytorch::Call& call);   // dtype('f8', False, True)

}  // namespace ucp::objects
