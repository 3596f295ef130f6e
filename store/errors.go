// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "errors"

// ErrConflict reports that a row with another key holds a value that is unique, such
// as an address within a VPC or a VNI.
var ErrConflict = errors.New("already taken")
