// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// keptPackets is the number of the latest packets that are kept for later clients.
const keptPackets = 1024

// PacketLog keeps the latest packets of one sample. It is the only reader of the
// programs' events on the node, and serves any number of clients.
type PacketLog struct {
	words Words
	log   *slog.Logger
	// ask requests events of the programs, for a time; nil: they report without a
	// request.
	ask func(time.Duration) error

	mu sync.Mutex
	// kept is a ring. Packet number i is at index i modulo its length.
	kept [keptPackets]nodestatus.Packet
	// count is the number of all packets so far.
	count uint64
	// changed is sent with each packet.
	changed broadcast.Signal
}

// NewPacketLog returns a log without packets. ask requests events of the programs, for a time;
// nil: they report without a request.
func NewPacketLog(words Words, ask func(time.Duration) error, log *slog.Logger) *PacketLog {
	return &PacketLog{words: words, ask: ask, log: log}
}

// Run reads events from one reader after the other until ctx ends. A reader is
// closed by who made it.
func (l *PacketLog) Run(ctx context.Context, readers <-chan *telemetry.EventReader) {
	for {
		select {
		case <-ctx.Done():
			return
		case reader := <-readers:
			l.read(ctx, reader)
		}
	}
}

func (l *PacketLog) read(ctx context.Context, reader *telemetry.EventReader) {
	stop := context.AfterFunc(ctx, func() { reader.Close() })
	defer stop()
	for {
		event, err := reader.Read()
		switch {
		case errors.Is(err, telemetry.ErrClosed):
			return
		case err != nil:
			l.log.Debug("can't read an event", "error", err)
		default:
			l.add(l.words.tell(event))
		}
	}
}

func (l *PacketLog) add(packet nodestatus.Packet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept[l.count%keptPackets] = packet
	l.count++
	l.changed.Send()
}

// since returns the packets from number first on, the number of the one after
// them, and a channel that is closed with the next.
func (l *PacketLog) since(first uint64) (packets []nodestatus.Packet, next uint64, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := l.count - min(l.count, keptPackets)
	missed := oldest - min(oldest, first)
	for i := max(first, oldest); i < l.count; i++ {
		packets = append(packets, l.kept[i%keptPackets])
	}
	if first > 0 && len(packets) > 0 {
		packets[0].Missed = missed
	}
	return packets, l.count, l.changed.Next()
}

// ServeHTTP writes the latest packets and, if requested, the following ones.
func (l *PacketLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	watch := nodestatus.ReadWatch(r.URL.Query())
	ctx := r.Context()
	if !watch.Follow {
		short, stop := context.WithTimeout(ctx, watch.For)
		defer stop()
		ctx = short
	}
	var again <-chan time.Time
	if l.ask != nil && ctx.Err() == nil {
		l.renew()
		ticker := time.NewTicker(askEvery)
		defer ticker.Stop()
		again = ticker.C
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	out, encoder := http.NewResponseController(w), json.NewEncoder(w)
	for next := uint64(0); ; {
		ended := ctx.Err() != nil
		var packets []nodestatus.Packet
		var changed <-chan struct{}
		packets, next, changed = l.since(next)
		for _, packet := range packets {
			if err := encoder.Encode(packet); err != nil {
				return
			}
		}
		if err := out.Flush(); err != nil || ended {
			return
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-again: // not while the client does not read
			l.renew()
		}
	}
}

// The request is repeated each second, and lasts a little longer: a new datapath needs
// it too, and it has to end if the daemon is gone.
const (
	askEvery = time.Second
	askFor   = 3 * askEvery
)

func (l *PacketLog) renew() {
	if err := l.ask(askFor); err != nil {
		l.log.Debug("can't read packets from the programs", "error", err)
	}
}
