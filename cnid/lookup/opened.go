// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"io"

	"github.com/alioth-net/alioth/ebpf/datapath"
)

// Opened takes each datapath that is opened, for a Loop. Its methods must not be called
// concurrently.
type Opened struct {
	misses io.Closer
	paths  chan Datapath
}

// NewOpened returns one without a datapath.
func NewOpened() *Opened { return &Opened{paths: make(chan Datapath, 1)} }

// Paths is Config.Opened.
func (o *Opened) Paths() <-chan Datapath { return o.paths }

// ReadFrom takes a datapath in place of the one before.
func (o *Opened) ReadFrom(path *datapath.Datapath) error {
	misses, err := path.Misses()
	if err != nil {
		return err
	}
	err = o.Close()
	o.misses = misses
	select {
	case <-o.paths:
	default:
	}
	o.paths <- Datapath{Table: path.Cached(), Misses: misses}
	return err
}

// Close ends the reading of the open datapath's misses.
func (o *Opened) Close() (err error) {
	if o.misses != nil {
		err = o.misses.Close()
	}
	o.misses = nil
	return err
}
