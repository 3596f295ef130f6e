// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import "time"

// Meta is the part of its API object that every row keeps.
type Meta struct {
	UID             string
	ResourceVersion string
	// Generation of the spec, for status.observedGeneration.
	Generation int64
	Created    time.Time
	// Deleting is true once the object has a deletion timestamp.
	Deleting bool
	// Finalizer is true while the object carries Alioth's finalizer.
	Finalizer bool
}
