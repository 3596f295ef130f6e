// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import "github.com/alioth-net/alioth/ebpf/datapath"

// events are what a datapath tells of single packets, of one kind.
type events struct {
	of func(*datapath.Datapath) (*datapath.EventReader, error)
	// reader is that of the open datapath. Each is handed to readers, in place of
	// one that nobody has taken.
	reader  *datapath.EventReader
	readers chan *datapath.EventReader
}

func newEvents(of func(*datapath.Datapath) (*datapath.EventReader, error)) *events {
	return &events{of: of, readers: make(chan *datapath.EventReader, 1)}
}

// readFrom takes a datapath in place of the one before.
func (e *events) readFrom(path *datapath.Datapath) error {
	reader, err := e.of(path)
	if err != nil {
		return err
	}
	err = e.close()
	e.reader = reader
	select {
	case <-e.readers:
	default:
	}
	e.readers <- reader
	return err
}

func (e *events) close() (err error) {
	if e.reader != nil {
		err = e.reader.Close()
	}
	e.reader = nil
	return err
}
