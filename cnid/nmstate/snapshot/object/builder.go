// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/attribute"
)

// Builder puts a request about a device together.
type Builder struct{ Body []byte }

// About begins a request about the device of an index, 0 for a new device.
func About(index uint32) *Builder {
	b := &Builder{make([]byte, unix.SizeofIfInfomsg)}
	binary.NativeEndian.PutUint32(b.Body[4:], index)
	return b
}

// Flags sets the flags of a mask.
func (b *Builder) Flags(value, mask uint32) {
	binary.NativeEndian.PutUint32(b.Body[8:], value)
	binary.NativeEndian.PutUint32(b.Body[12:], mask)
}

// Add adds an attribute.
func (b *Builder) Add(kind uint16, content []byte) *Builder {
	b.Body = AppendAttribute(b.Body, kind, content)
	return b
}

// Copy adds attributes of another message that it has.
func (b *Builder) Copy(from attribute.List, kinds ...uint16) {
	for _, kind := range kinds {
		if content := from.Get(kind); content != nil && (kind != unix.IFLA_ADDRESS || !IsZero(content)) {
			b.Add(kind, content)
		}
	}
}

// Info adds what a driver has of a device (IFLA_INFO_DATA), or of a port.
func (b *Builder) Info(kindOf uint16, kind string, dataOf uint16, data []byte) {
	content := AppendAttribute(nil, kindOf, append([]byte(kind), 0))
	if len(data) > 0 {
		content = AppendAttribute(content, dataOf|unix.NLA_F_NESTED, data)
	}
	b.Add(unix.IFLA_LINKINFO|unix.NLA_F_NESTED, content)
}
