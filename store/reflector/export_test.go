// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reflector

// Newest is the newest version of a kind that a source has read up to.
func (s *Set) Newest(kind string) string { return s.newest(kind) }
