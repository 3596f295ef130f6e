// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package subscriptions

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
)

// line is the way to an API server. It breaks with the first request whose URL has the words,
// before the answer or within it, and stays broken until it is mended.
type line struct {
	next http.RoundTripper
	// words are all in the request that the connection breaks with; nil: in none.
	words []string
	// within lets the answer begin with so many bytes; 0: no answer.
	within int

	mu       sync.Mutex
	broken   bool
	attempts int
	open     map[*onLine]bool
	changed  broadcast.Signal
}

var errBroken = errors.New("the line is broken")

// RoundTrip implements http.RoundTripper.
func (l *line) RoundTrip(request *http.Request) (*http.Response, error) {
	limit, err := l.begin(request.URL.RawQuery + "&" + request.URL.Path)
	if err != nil {
		return nil, err
	}
	response, err := l.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	body := &onLine{ReadCloser: response.Body, line: l, left: limit}
	response.Body = body
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken { // in between
		response.Body.Close()
		return nil, errBroken
	}
	l.open[body] = true
	return response, nil
}

// begin returns after how many bytes the line breaks, -1 for never.
func (l *line) begin(url string) (limit int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		l.attempts++
		l.changed.Send()
		return 0, errBroken
	}
	lacks := func(word string) bool { return !strings.Contains(url, word) }
	if l.words == nil || slices.ContainsFunc(l.words, lacks) {
		return -1, nil
	}
	l.words = nil
	if l.within > 0 {
		return l.within, nil
	}
	l.breakNow()
	return 0, errBroken
}

// breakNow ends all that is open, with mu held.
func (l *line) breakNow() {
	l.broken = true
	for body := range l.open {
		go body.Close() // a read that waits ends by it
	}
	clear(l.open)
	l.changed.Send()
}

// state returns whether it is broken, how many requests have failed since, and a channel
// that is closed with the next change.
func (l *line) state() (broken bool, attempts int, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken, l.attempts, l.changed.Next()
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = false
}

// onLine is an answer that ends with the line.
type onLine struct {
	io.ReadCloser
	line *line
	// left is the number of bytes before the line breaks, -1 for all.
	left int
}

func (b *onLine) Read(p []byte) (int, error) {
	if b.left < 0 {
		return b.ReadCloser.Read(p)
	}
	if b.left == 0 {
		b.line.mu.Lock()
		b.line.breakNow()
		b.line.mu.Unlock()
		return 0, errBroken
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// TestSubscription_StartedDuringAPIOutage_CatchesUp: an Address arrives, and with the first
// request for its VPC, or within the answer to it, all connections end. Meanwhile the VPC is
// replaced by another one of its name.
func TestSubscription_StartedDuringAPIOutage_CatchesUp(t *testing.T) {
	for name, c := range map[string]struct {
		words  []string
		within int
		// unread reports that the VPC itself has not been read before.
		unread bool
	}{
		"cut-vpc":       {[]string{"metadata.name%3Dcut-vpc&"}, 0, true},
		"cut-row":       {[]string{"metadata.name%3Dcut-row&"}, 200, true},
		"cut-subnets":   {[]string{"spec.vpc%3Dcut-subnets&", "/subnets"}, 0, false},
		"cut-addresses": {[]string{"spec.vpc%3Dcut-addresses&", "/addresses"}, 0, false},
		"cut-list":      {[]string{"spec.vpc%3Dcut-list&"}, 200, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := &line{within: c.within, open: map[*onLine]bool{}}
			n := newNode(t, Config{Node: name, DefaultVPC: name + "-default"}, fixed(nil), func(next http.RoundTripper) http.RoundTripper { l.next = next; return l })
			admin := newNode(t, Config{}, fixed(nil))
			vpc, subnet := vpcNamed(name), subnetOf(name, name+"-net")
			admin.create(t, vpcNamed(name+"-default"), vpc, subnet, addressIn(name, subnet.Name, "10.10.1.9", name+"-far"))
			n.run(t)
			l.mu.Lock()
			l.words = c.words
			l.mu.Unlock()
			admin.create(t, addressIn(name, subnet.Name, "10.10.1.1", name))
			n.await(t, "the line breaks, and sources try again", func() (bool, <-chan struct{}) {
				broken, attempts, changed := l.state()
				return broken && attempts > 3, changed
			})
			if n.DomainSynced(name).IsOpen() {
				t.Error("the VPC counts as read")
			}
			if read, _ := n.VPCsRead(); read && !n.Hosts(name) {
				t.Error("a roll call would be answered without the VPC")
			}
			for _, object := range []kube.Object{subnet, vpc} {
				if err := admin.api.Delete(t.Context(), object, object.GetUID()); err != nil {
					t.Fatal(err)
				}
			}
			again, net := vpcNamed(name), subnetOf(name, name+"-again")
			admin.create(t, again, net)
			l.mend()
			n.await(t, "the VPC counts as read", n.DomainSynced(name))
			n.rows.View(func(tx store.ReadTx) {
				row := store.GetVPC(tx, name)
				// A row that was read before is as old as its watch, until that continues.
				if row == nil || c.unread && row.UID != string(again.UID) {
					t.Errorf("the VPC counts as read with the row %+v", row)
				}
				if len(store.AddressesByDomain(tx, name)) != 2 {
					t.Errorf("the VPC counts as read with the Addresses %+v", store.AddressesByDomain(tx, name))
				}
			})
			n.see(t, "the VPC and the Subnet that came meanwhile", func(tx store.ReadTx) bool {
				row := store.GetVPC(tx, name)
				return row != nil && row.UID == string(again.UID) && store.GetSubnet(tx, net.Name) != nil && store.GetSubnet(tx, subnet.Name) == nil
			})
		})
	}
}
