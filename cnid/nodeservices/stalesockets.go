// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeservices

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/netns"
	"github.com/alioth-net/alioth/cnid/periodic"
	"github.com/alioth-net/alioth/cnid/sockdiag"
	"github.com/alioth-net/alioth/ebpf/datapath/connections"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
)

// StaleSockets ends sockets that are connected to a removed backend of their service:
// they would not notice the removal otherwise.
type StaleSockets struct {
	// find lists the present stale sockets; changed has an element when a service has
	// changed.
	find    func() ([]connections.StaleSocket, error)
	changed <-chan struct{}
	// own is the cookie of the node's own network namespace; records have the places
	// of pods' namespaces.
	own     uint64
	records func() []journal.Record
	ended   prometheus.Counter
	log     *slog.Logger
}

// NewStaleSockets returns a StaleSockets for the node's own network namespace and those of
// records.
func NewStaleSockets(find func() ([]connections.StaleSocket, error), changed <-chan struct{}, own uint64,
	records func() []journal.Record, registry prometheus.Registerer, log *slog.Logger,
) *StaleSockets {
	ended := prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "alioth", Subsystem: "cnid", Name: "stale_sockets_ended_total",
		Help: "UDP sockets that were closed because the service no longer has their backend.",
	})
	registry.MustRegister(ended)
	return &StaleSockets{find: find, changed: changed, own: own, records: records, ended: ended, log: log}
}

// lookEvery is how often stale sockets are searched without a change of a service. A
// socket that was connecting during a change may have got the removed backend.
const lookEvery = 5 * time.Second

// Run ends them until ctx ends, those of a changed service at once.
func (s *StaleSockets) Run(ctx context.Context) {
	periodic.Run(ctx, lookEvery, s.changed, func() {
		ended, err := s.end()
		s.ended.Add(float64(ended))
		if err != nil {
			s.log.Warn("can't end all sockets of a removed backend; trying again", "error", err)
		}
	})
}

// end ends all present stale sockets and returns their number. Of two sockets with the
// same addresses the kernel shows the second only after the first has ended. So end
// repeats the search while it finds sockets that it can end.
func (s *StaleSockets) end() (ended int, err error) {
	for {
		sockets, err := s.find()
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

func byNamespace(sockets []connections.StaleSocket) map[uint64][]connections.StaleSocket {
	found := map[uint64][]connections.StaleSocket{}
	for _, socket := range sockets {
		found[socket.NetnsCookie] = append(found[socket.NetnsCookie], socket)
	}
	return found
}

func (s *StaleSockets) endAll(sockets map[uint64][]connections.StaleSocket) (ended int, err error) {
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

// inside calls f in a network namespace, if its place is known. Sockets of a namespace
// without a known place end with the pod.
func (s *StaleSockets) inside(cookie uint64, f func() error) error {
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
			// The path may belong to another pod by now, whose cookies do not match.
			return f()
		})
	}
	return nil
}

func destroy(sockets []connections.StaleSocket) (ended int, err error) {
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

// CanEndSockets reports whether sockets can be ended here, and logs it if not.
func CanEndSockets(log *slog.Logger) (bool, error) {
	err := sockdiag.Probe()
	if err == nil {
		err = programs.ProbeStale()
	}
	if errors.Is(err, sockdiag.ErrNotSupported) || errors.Is(err, programs.ErrNoIterator) {
		log.Warn("connected UDP sockets are translated in packets instead of at the socket; "+
			"the node's own, and those without a host end, keep a removed backend until they are closed", "reason", err)
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find out whether sockets can be ended: %w", err)
	}
	return true, nil
}
