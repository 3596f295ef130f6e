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

	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/sockdiag"
	"github.com/alioth-net/alioth/ebpf/datapath/connections"
)

// StaleSockets ends sockets that are connected to a removed backend of their service:
// they would not notice the removal otherwise.
type StaleSockets struct {
	// find lists the stale sockets of the calling thread's network namespace; changed has an
	// element when a service has changed.
	find    func() ([]connections.StaleSocket, error)
	changed <-chan struct{}
	// own is the cookie of the node's own network namespace; records have the places
	// of pods' namespaces.
	own     uint64
	records journal.Reader
	ended   prometheus.Counter
	log     *slog.Logger
}

// NewStaleSockets returns a StaleSockets for the node's own network namespace and the
// namespaces of records.
func NewStaleSockets(find func() ([]connections.StaleSocket, error), changed <-chan struct{}, own uint64,
	records journal.Reader, registry prometheus.Registerer, log *slog.Logger,
) *StaleSockets {
	ended := prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "alioth", Subsystem: "cnid", Name: "stale_sockets_ended_total",
		Help: "UDP sockets that were closed because the service no longer has their backend.",
	})
	registry.MustRegister(ended)
	return &StaleSockets{find: find, changed: changed, own: own, records: records, ended: ended, log: log}
}

// lookAgain is how long after a change of a service stale sockets are searched once more. A
// socket that was connecting during the change may have got the removed backend. It is also
// the pause after a failure.
const lookAgain = 5 * time.Second

// busyShare limits the part of the time that searches take while services change all the
// time: each is followed by a pause so many times as long.
const busyShare = 20

// Run ends them until ctx ends, whenever a service has changed.
func (s *StaleSockets) Run(ctx context.Context) {
	again := time.NewTimer(lookAgain)
	defer again.Stop()
	for {
		changed := false
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
			changed = true
		case <-again.C:
		}
		began := time.Now()
		if err := s.look(); err != nil || changed {
			again.Reset(lookAgain)
		}
		rest(ctx, busyShare*time.Since(began))
	}
}

func rest(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

// look ends the present stale sockets of all namespaces.
func (s *StaleSockets) look() error {
	ended, err := s.endAll()
	s.ended.Add(float64(ended))
	if err != nil {
		s.log.Warn("can't end all sockets of a removed backend; trying again", "error", err)
	}
	return err
}

// endAll goes through the namespaces. Sockets of a namespace without a known place end with
// the pod.
func (s *StaleSockets) endAll() (ended int, err error) {
	ended, err = s.end()
	failed := []error{err}
	seen := map[uint64]bool{s.own: true, 0: true}
	for _, rec := range s.records.Records() {
		if seen[rec.Device.NetnsCookie] {
			continue
		}
		seen[rec.Device.NetnsCookie] = true
		err := within(rec.NetnsPath, func() error {
			now, err := s.end()
			ended += now
			return err
		})
		failed = append(failed, err)
	}
	return ended, errors.Join(failed...)
}

// within calls f in a network namespace, unless that is gone.
func within(path string, f func() error) error {
	namespace, err := netns.Open(path)
	if errors.Is(err, netns.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	// Nothing was written, so nothing is lost when closing fails.
	defer func() { _ = namespace.Close() }()
	return namespace.Do(func(ns.NetNS) error { return f() })
}

// end ends all stale sockets of the calling thread's namespace and returns their number. Of
// two sockets with the same addresses the kernel shows the second only after the first has
// ended. So end repeats the search while it finds sockets that it can end.
func (s *StaleSockets) end() (ended int, err error) {
	for {
		sockets, err := s.find()
		if err != nil || len(sockets) == 0 {
			return ended, err
		}
		now, err := destroy(sockets)
		ended += now
		if now == 0 || err != nil {
			return ended, err
		}
	}
}

func destroy(sockets []connections.StaleSocket) (ended int, err error) {
	for _, one := range sockets {
		err := sockdiag.Destroy(
			sockdiag.Socket{Cookie: one.Cookie, Local: one.Local, Remote: one.Remote, Ifindex: one.Ifindex},
		)
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
	if errors.Is(err, sockdiag.ErrNotSupported) {
		log.Warn("connected UDP sockets are translated in packets instead of at the socket; "+
			"the node's own, and those without a host end, keep a removed backend until they are closed", "reason", err)
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find out whether sockets can be ended: %w", err)
	}
	return true, nil
}
