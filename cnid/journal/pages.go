// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
)

// Layout of a bbolt file, little-endian on all platforms we build for. Pages
// have a header {id u64, flags u16, count u16, overflow u32}; a meta page goes
// on with {magic u32, version u32, pageSize u32, flags u32, root u64,
// sequence u64, freelist u64, pages u64, txid u64, checksum u64}; a branch
// page with elements {pos u32, ksize u32, page u64}; a leaf page with elements
// {flags u32, pos u32, ksize u32, vsize u32}. An element's pos counts from the
// element. The value of a bucket is {root u64, sequence u64}, with a leaf page
// behind it when root is 0.
const (
	pageHeader  = 16
	element     = 16
	metaSize    = 64
	metaMagic   = 0xED0CDAED
	flagBranch  = 0x01
	flagLeaf    = 0x02
	flagBucket  = 0x01
	bucketValue = 16
)

var order = binary.LittleEndian

// checkPages returns an error unless every page that can be reached from the
// newest root lies in the file, is reached once, and has its elements inside
// it. bbolt itself would follow a page that points back to an ancestor for
// ever, and read behind the end of a truncated file.
func checkPages(file []byte) error {
	root, pageSize, ok := newestMeta(file)
	if !ok {
		return errors.New("no valid meta page")
	}
	w := pageWalk{file: file, pageSize: pageSize, seen: map[uint64]bool{0: true, 1: true}}
	return w.page(root)
}

// newestMeta returns root and page size of the meta page that bbolt will use.
func newestMeta(file []byte) (root uint64, pageSize uint64, ok bool) {
	var newest uint64
	// The second meta page starts where the first one's page ends, and the
	// page size is in either of them: try the sizes that kernels have.
	for _, at := range []uint64{0, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10} {
		if uint64(len(file)) < at+pageHeader+metaSize {
			break
		}
		meta := file[at+pageHeader:][:metaSize]
		if !validMeta(meta) || at != 0 && at != uint64(order.Uint32(meta[8:])) {
			continue
		}
		if txid := order.Uint64(meta[48:]); !ok || txid > newest {
			newest, root, pageSize, ok = txid, order.Uint64(meta[16:]), uint64(order.Uint32(meta[8:])), true
		}
	}
	return root, pageSize, ok && pageSize >= pageHeader+metaSize
}

func validMeta(meta []byte) bool {
	sum := fnv.New64a()
	_, _ = sum.Write(meta[:56]) // a hash never fails
	return order.Uint32(meta) == metaMagic && sum.Sum64() == order.Uint64(meta[56:])
}

// pageWalk follows pages from a root.
type pageWalk struct {
	file     []byte
	pageSize uint64
	seen     map[uint64]bool
}

func (w *pageWalk) page(id uint64) error {
	if w.seen[id] {
		return fmt.Errorf("page %d is reached twice", id)
	}
	w.seen[id] = true
	if id >= uint64(len(w.file))/w.pageSize {
		return fmt.Errorf("page %d is behind the end of the file", id)
	}
	body := w.file[id*w.pageSize:]
	length := (uint64(order.Uint32(body[12:])) + 1) * w.pageSize
	if length > uint64(len(body)) {
		return fmt.Errorf("page %d ends behind the end of the file", id)
	}
	if got := order.Uint64(body); got != id {
		return fmt.Errorf("page %d calls itself %d", id, got)
	}
	if err := w.elements(body[:length]); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// elements checks the page in body, and all pages below it.
func (w *pageWalk) elements(body []byte) error {
	flags, count := order.Uint16(body[8:]), int(order.Uint16(body[10:]))
	if pageHeader+count*element > len(body) {
		return fmt.Errorf("%d elements are too many", count)
	}
	if flags != flagBranch && flags != flagLeaf || flags == flagBranch && count == 0 {
		return fmt.Errorf("unexpected flags %#x with %d elements", flags, count)
	}
	for i := range count {
		at := body[pageHeader+i*element:]
		var err error
		if flags == flagBranch {
			err = w.branch(at)
		} else {
			err = w.leaf(at)
		}
		if err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	return nil
}

func (w *pageWalk) branch(at []byte) error {
	if uint64(order.Uint32(at))+uint64(order.Uint32(at[4:])) > uint64(len(at)) {
		return errors.New("key is outside the page")
	}
	return w.page(order.Uint64(at[8:]))
}

func (w *pageWalk) leaf(at []byte) error {
	pos, ksize, vsize := uint64(order.Uint32(at[4:])), uint64(order.Uint32(at[8:])), uint64(order.Uint32(at[12:]))
	if pos+ksize+vsize > uint64(len(at)) {
		return errors.New("key or value is outside the page")
	}
	if order.Uint32(at)&flagBucket == 0 {
		return nil
	}
	value := at[pos+ksize:][:vsize]
	if len(value) < bucketValue {
		return errors.New("bucket is too short")
	}
	if root := order.Uint64(value); root != 0 {
		return w.page(root)
	}
	if len(value) < bucketValue+pageHeader {
		return errors.New("inline bucket is too short")
	}
	return w.inline(value[bucketValue:])
}

// inline checks the page inside a bucket's value, which is always a leaf.
func (w *pageWalk) inline(body []byte) error {
	if order.Uint16(body[8:]) != flagLeaf {
		return errors.New("inline bucket is no leaf")
	}
	return w.elements(body)
}
