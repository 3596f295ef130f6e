// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"io"

	"github.com/alioth-net/alioth/ebpf/datapath"
)

// Events are reports of the programs about single packets, of one kind. A reader R ends with its
// datapath.
type Events[R io.Closer] struct {
	of func(*datapath.Datapath) (R, error)
	// reader is the reader of the open datapath, or nil. Each new reader is put into readers, in
	// place of a reader that was not taken yet.
	reader  io.Closer
	readers chan R
}

// NewEvents returns the Events of a datapath. The function of returns their reader.
func NewEvents[R io.Closer](of func(*datapath.Datapath) (R, error)) *Events[R] {
	return &Events[R]{of: of, readers: make(chan R, 1)}
}

// Readers delivers the reader of each datapath that is opened.
func (e *Events[R]) Readers() <-chan R { return e.readers }

// ReadFrom takes a datapath in place of the one before.
func (e *Events[R]) ReadFrom(path *datapath.Datapath) error {
	reader, err := e.of(path)
	if err != nil {
		return err
	}
	err = e.Close()
	e.reader = reader
	select {
	case <-e.readers:
	default:
	}
	e.readers <- reader
	return err
}

// Close closes the reader of the open datapath.
func (e *Events[R]) Close() (err error) {
	if e.reader != nil {
		err = e.reader.Close()
	}
	e.reader = nil
	return err
}
