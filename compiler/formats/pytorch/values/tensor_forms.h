// The meaning of the calls that torch.save writes for tensors: the functions of torch._utils known by name, and the
// persistent ids of storages. Errors are sentences without a place; the caller knows the byte.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/formats/pytorch/values/value.h"

namespace ucp::pytorch {

// Returns whether a call of this function makes a tensor, or something that only tensors are made of.
bool MakesTensor(const Global& function);

// Returns the tensor that such a call makes. Its elements lie within its storage. Unknown functions (sparse and
// quantised tensors, subclasses) are kUnsupported.
llvm::Expected<Tensor> TensorFromCall(const Global& function, const Tuple& arguments);

// Returns whether such a call makes a DTensor: a tensor that ranks share, which has its own ranks' part and a mesh.
bool MakesDTensor(const Global& function, const Tuple& arguments);

// Returns the part that this rank has of the DTensor that such a call makes, with its class and without attributes. The
// mesh and the placements are not looked at, and need not be plain data.
llvm::Expected<Tensor> LocalOfDTensor(const Tuple& arguments);

// Returns the storage that a persistent id names: ('storage', class, key, location, elements); streams add a None, or
// what part of another storage it is (which PyTorch has not written since storages have no views; refused).
llvm::Expected<Storage> StorageFromPersistentId(const Value& id);

}  // namespace ucp::pytorch
