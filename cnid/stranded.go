// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/netns"
	"github.com/alioth-net/alioth/cnid/sockdiag"
	"github.com/alioth-net/alioth/ebpf/datapath"
)

// stranded ends the sockets that services have left connected to what is no backend
// of theirs any more: nothing else would ever tell them.
type stranded struct {
	kernel *kernel
	// own is the cookie of the node's own network namespace, records say where
	// those of pods are.
	own     uint64
	records func() []journal.Record
	metrics *syncMetrics
	log     *slog.Logger
}

// strandedEvery is how often they are looked for when no service has changed. A
// socket that was about to connect at a change may have been given a backend that
// was one until then.
const strandedEvery = 5 * time.Second

// run ends them until ctx ends, those of a changed service at once.
func (s *stranded) run(ctx context.Context) {
	ticker := time.NewTicker(strandedEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-s.kernel.services:
		}
		ended, err := s.end()
		s.metrics.stranded.Add(float64(ended))
		if err != nil {
			s.log.Warn("can't end every socket of a backend that is gone; trying again", "error", err)
		}
	}
}

// end ends all that there are now, and returns how many. Of two sockets with the
// same ends the kernel shows one, the other when that is ended: so it looks again
// for as long as there are some that it can end.
func (s *stranded) end() (ended int, err error) {
	for {
		sockets, err := s.kernel.strandedSockets()
		if err != nil || len(sockets) == 0 {
			return ended, err
		}
		now, err := s.endAll(byNamespace(sockets))
		ended += now
		if now == 0 || err != nil {
			return ended, err
		}
	}
}

func byNamespace(sockets []datapath.StrandedSocket) map[uint64][]datapath.StrandedSocket {
	found := map[uint64][]datapath.StrandedSocket{}
	for _, socket := range sockets {
		found[socket.NetnsCookie] = append(found[socket.NetnsCookie], socket)
	}
	return found
}

func (s *stranded) endAll(sockets map[uint64][]datapath.StrandedSocket) (ended int, err error) {
	var failed []error
	for cookie, list := range sockets {
		failed = append(failed, s.inside(cookie, func() error {
			now, err := destroy(list)
			ended += now
			return err
		}))
	}
	return ended, errors.Join(failed...)
}

// inside calls f in a network namespace, if it is known where that is. Sockets of
// one that nothing leads to any more end with the pod.
func (s *stranded) inside(cookie uint64, f func() error) error {
	if cookie == s.own {
		return f()
	}
	for _, rec := range s.records() {
		if rec.Device.NetnsCookie != cookie {
			continue
		}
		namespace, err := netns.Open(rec.NetnsPath)
		if errors.Is(err, netns.ErrGone) {
			return nil
		}
		if err != nil {
			return err
		}
		// Nothing was written, so nothing is lost when closing fails.
		defer func() { _ = namespace.Close() }()
		return namespace.Do(func(ns.NetNS) error {
			// The path may be another pod's by now, in which no cookie fits.
			return f()
		})
	}
	return nil
}

func destroy(sockets []datapath.StrandedSocket) (ended int, err error) {
	for _, one := range sockets {
		err := sockdiag.Destroy(sockdiag.Socket{Cookie: one.Cookie, Local: one.Local, Remote: one.Remote, Ifindex: one.Ifindex})
		switch {
		case err == nil:
			ended++
		case !errors.Is(err, sockdiag.ErrGone):
			return ended, err
		}
	}
	return ended, nil
}

// endsSockets finds out whether sockets can be ended here, and says so if not.
func endsSockets(log *slog.Logger) (bool, error) {
	err := sockdiag.Probe()
	if errors.Is(err, sockdiag.ErrNotSupported) {
		log.Warn("sockets for datagrams that are connected to a service are served by the packet door; "+
			"the node's own, and those without a host end, stay with a backend that is gone until they are closed", "reason", err)
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find out whether sockets can be ended: %w", err)
	}
	return true, nil
}
