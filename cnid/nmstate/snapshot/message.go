// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import "github.com/alioth-net/alioth/cnid/nmstate/snapshot/object"

// Message is one object of the kernel in an image.
type Message = object.Message

// Destination is the prefix of a route, and its table.
type Destination = object.Destination
