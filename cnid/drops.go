// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/alioth-net/alioth/cnid/nodestatus"
	"github.com/alioth-net/alioth/ebpf/datapath"
)

// keptDrops is how many of the latest drops are kept for who asks later.
const keptDrops = 1024

// dropLog keeps the latest drops. It is the only reader of the programs' events
// on the node, and serves any number of people.
type dropLog struct {
	node  string
	names names
	log   *slog.Logger

	mu sync.Mutex
	// kept is a ring in which the drop of number i is at i modulo its length.
	kept [keptDrops]nodestatus.Drop
	// count is how many there were.
	count uint64
	// changed is closed, and replaced, with the next drop.
	changed chan struct{}
}

func newDropLog(node string, n names, log *slog.Logger) *dropLog {
	return &dropLog{node: node, names: n, log: log, changed: make(chan struct{})}
}

// run reads drops from one reader after the other until ctx ends. A reader is
// closed by who made it.
func (l *dropLog) run(ctx context.Context, readers <-chan *datapath.DropReader) {
	for {
		select {
		case <-ctx.Done():
			return
		case reader := <-readers:
			l.read(ctx, reader)
		}
	}
}

func (l *dropLog) read(ctx context.Context, reader *datapath.DropReader) {
	stop := context.AfterFunc(ctx, func() { reader.Close() })
	defer stop()
	for {
		drop, err := reader.Read()
		switch {
		case errors.Is(err, datapath.ErrClosed):
			return
		case err != nil:
			l.log.Debug("can't read a drop", "error", err)
		default:
			l.add(l.named(drop))
		}
	}
}

func (l *dropLog) add(drop nodestatus.Drop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept[l.count%keptDrops] = drop
	l.count++
	close(l.changed)
	l.changed = make(chan struct{})
}

// since returns the drops from number first on, the number of the one after
// them, and a channel that is closed with the next.
func (l *dropLog) since(first uint64) (drops []nodestatus.Drop, next uint64, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := l.count - min(l.count, keptDrops)
	missed := oldest - min(oldest, first)
	for i := max(first, oldest); i < l.count; i++ {
		drops = append(drops, l.kept[i%keptDrops])
	}
	if first > 0 && len(drops) > 0 {
		drops[0].Missed = missed
	}
	return drops, l.count, l.changed
}

// ServeHTTP writes the latest drops and, if asked to, those to come.
func (l *dropLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	follow, _ := strconv.ParseBool(r.URL.Query().Get("follow"))
	w.Header().Set("Content-Type", "application/x-ndjson")
	out, encoder := http.NewResponseController(w), json.NewEncoder(w)
	for next := uint64(0); ; {
		var drops []nodestatus.Drop
		var changed <-chan struct{}
		drops, next, changed = l.since(next)
		for _, drop := range drops {
			if err := encoder.Encode(drop); err != nil {
				return
			}
		}
		if err := out.Flush(); err != nil || !follow {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}

// named adds to a drop what its numbers stand for.
func (l *dropLog) named(d datapath.Drop) nodestatus.Drop {
	drop := nodestatus.Drop{
		Time: wallTime(d.Time), Node: l.node, VPC: l.names.vpc(d.VNI), VNI: d.VNI,
		Direction: d.Direction.String(), Reason: d.Reason.String(), Means: d.Reason.Means(), Remedy: d.Reason.Remedy(),
	}
	if rec, ok := l.names.device(d.Ifindex); ok {
		drop.Pod, drop.Device = rec.Pod.String(), rec.HostIfName
	} else {
		drop.Device = fmt.Sprintf("device %d", d.Ifindex)
	}
	inside := func(ip netip.Addr) string { return l.names.holder(drop.VPC, ip) }
	if d.Came.Src.IsValid() || d.Came.Dst.IsValid() {
		drop.Proto = nodestatus.Protocol(d.Proto)
		drop.Came = ends(d.Came, inside)
	}
	if d.Went != (datapath.Tuple{}) {
		drop.Went = ends(d.Went, inside)
	}
	if d.OuterSrc.IsValid() {
		drop.Outer = ends(datapath.Tuple{Src: d.OuterSrc, Dst: d.OuterDst}, l.names.node)
	}
	return drop
}

func ends(t datapath.Tuple, name func(netip.Addr) string) *nodestatus.Ends {
	// Both are read at once, so this one is no address that is missing.
	if !t.Src.IsValid() && t.Dst.Is6() {
		t.Src = netip.IPv6Unspecified()
	}
	return &nodestatus.Ends{
		Src: nodestatus.End{IP: t.Src, Port: t.Sport, Name: name(t.Src)},
		Dst: nodestatus.End{IP: t.Dst, Port: t.Dport, Name: name(t.Dst)},
	}
}

// wallTime converts a time of the programs' clock.
func wallTime(at time.Duration) time.Time {
	now, err := datapath.MonotonicNow()
	if err != nil {
		return time.Now()
	}
	return time.Now().Add(at - now)
}
