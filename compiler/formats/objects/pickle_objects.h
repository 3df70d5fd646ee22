// Enters the names and calls of one pickle into the objects of its file.
#pragma once

#include "compiler/formats/objects/file_objects.h"
#include "compiler/formats/pytorch/pickle/pickle_scan.h"

namespace ucp::objects {

void AddObjectsOf(const pytorch::PickleScan& scan, const KnownObjects& known, FileObjects& found);

}  // namespace ucp::objects
