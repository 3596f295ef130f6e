// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package broadcast

import "context"

// Gate reports whether it is open, such as whether all objects have been read. It returns a
// channel that is closed when the answer may have changed.
type Gate func() (open bool, changed <-chan struct{})

// IsOpen reports whether the gate is open.
func (g Gate) IsOpen() bool {
	open, _ := g()
	return open
}

// Wait blocks until the gate is open, and returns false if ctx ends before.
func (g Gate) Wait(ctx context.Context) bool {
	for {
		open, changed := g()
		if open {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// And returns a gate that is open while both are. The other one is asked once this one is
// open.
func (g Gate) And(other Gate) Gate {
	return func() (bool, <-chan struct{}) {
		if open, changed := g(); !open {
			return false, changed
		}
		return other()
	}
}

// Open is a gate that is always open. Its channel is nil.
func Open() (bool, <-chan struct{}) { return true, nil }
