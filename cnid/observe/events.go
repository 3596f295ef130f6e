// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// Events are a datapath's reports of single packets, of one kind.
type Events struct {
	of func(*datapath.Datapath) (*telemetry.EventReader, error)
	// reader is that of the open datapath. Each new one is put into readers, in place of
	// one that was not taken yet.
	reader  *telemetry.EventReader
	readers chan *telemetry.EventReader
}

// NewEvents returns those that of reads from a datapath.
func NewEvents(of func(*datapath.Datapath) (*telemetry.EventReader, error)) *Events {
	return &Events{of: of, readers: make(chan *telemetry.EventReader, 1)}
}

// Readers delivers the reader of each datapath that is opened.
func (e *Events) Readers() <-chan *telemetry.EventReader { return e.readers }

// ReadFrom takes a datapath in place of the one before.
func (e *Events) ReadFrom(path *datapath.Datapath) error {
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
func (e *Events) Close() (err error) {
	if e.reader != nil {
		err = e.reader.Close()
	}
	e.reader = nil
	return err
}
