// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"io"

	"github.com/alioth-net/alioth/cnid/lookup"
	"github.com/alioth-net/alioth/ebpf/datapath"
)

// openedPaths hands each datapath that is opened to lookups of single addresses. It is a
// reconcile.Reader; its methods must not be called concurrently.
type openedPaths struct {
	misses io.Closer
	paths  chan lookup.Datapath
}

func newOpenedPaths() *openedPaths { return &openedPaths{paths: make(chan lookup.Datapath, 1)} }

// ReadFrom takes a datapath in place of the one before.
func (o *openedPaths) ReadFrom(path *datapath.Datapath) error {
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
	o.paths <- lookup.Datapath{Table: path.Cached(), Misses: misses}
	return err
}

// Close ends the reading of the open datapath's misses.
func (o *openedPaths) Close() (err error) {
	if o.misses != nil {
		err = o.misses.Close()
	}
	o.misses = nil
	return err
}
