// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"path"
	"strings"
	"sync"
)

// Received counts the data that a node has received of one resource.
type Received struct {
	// Events counts events of objects: added, modified, deleted. Bookmarks count as bytes alone,
	// because the API server sends them by the clock.
	Events int
	// Bytes counts the events' JSON, without the framing of HTTP/2 and TLS.
	Bytes int
	// Listed counts the bytes of lists in JSON, uncompressed. A node lists the objects that it
	// begins to follow, unless the API server can stream them as events. The API server needs etcd
	// 3.5.13 for this.
	Listed int
}

func (r Received) plus(more Received, sign int) Received {
	return Received{r.Events + sign*more.Events, r.Bytes + sign*more.Bytes, r.Listed + sign*more.Listed}
}

// Counts has the data that a node has received, by the resource in the API's paths.
type Counts map[string]Received

// Since returns the counts received since an earlier count. Resources without any are left out.
func (c Counts) Since(before Counts) Counts {
	more := Counts{}
	for resource, now := range c {
		diff := now.plus(before[resource], -1)
		if diff != (Received{}) {
			more[resource] = diff
		}
	}
	return more
}

// Total adds up the counts of all resources.
func (c Counts) Total() (sum Received) {
	for _, one := range c {
		sum = sum.plus(one, 1)
	}
	return sum
}

// Meter counts the data that the API server sends to one node. It reads the streams themselves, so
// it depends on nothing of the daemon that it measures.
type Meter struct {
	mu     sync.Mutex
	counts Counts
}

// NewMeter returns a meter that has counted nothing.
func NewMeter() *Meter { return &Meter{counts: Counts{}} }

// Counts returns the counts received so far.
func (m *Meter) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.counts)
}

func (m *Meter) add(resource string, more Received) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[resource] = m.counts[resource].plus(more, 1)
}

// Wrap counts the watches and lists that go through a transport. It fits rest.Config.Wrap.
func (m *Meter) Wrap(next http.RoundTripper) http.RoundTripper { return metered{next, m} }

type metered struct {
	next  http.RoundTripper
	meter *Meter
}

// RoundTrip implements http.RoundTripper.
func (t metered) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	// A request without parameters is for one object.
	if err != nil || response.StatusCode != http.StatusOK || request.Method != http.MethodGet ||
		request.URL.RawQuery == "" {
		return response, err
	}
	resource := path.Base(request.URL.Path)
	if request.URL.Query().Get("watch") == "true" {
		response.Body = &stream{ReadCloser: response.Body, meter: t.meter, resource: resource}
	} else {
		response.Body = &list{ReadCloser: response.Body, meter: t.meter, resource: resource}
	}
	return response, nil
}

// list is the body of a list.
type list struct {
	io.ReadCloser
	meter    *Meter
	resource string
}

// Read implements io.Reader.
func (l *list) Read(into []byte) (int, error) {
	n, err := l.ReadCloser.Read(into)
	l.meter.add(l.resource, Received{Listed: n})
	return n, err
}

// stream is the body of a watch: one event per line, whose first field is its type.
type stream struct {
	io.ReadCloser
	meter    *Meter
	resource string
	// head is the beginning of the line that is being read, as far as lines differ.
	head []byte
}

// headBytes is enough for the type of an event at the beginning of its line.
const headBytes = len(`{"type":"BOOKMARK"`)

// Read implements io.Reader.
func (s *stream) Read(into []byte) (int, error) {
	n, err := s.ReadCloser.Read(into)
	if n > 0 {
		s.meter.add(s.resource, Received{Events: s.events(into[:n]), Bytes: n})
	}
	return n, err
}

// events counts the events of objects that end in a part of the stream.
func (s *stream) events(part []byte) (ended int) {
	for len(part) > 0 {
		line, rest, complete := bytes.Cut(part, []byte("\n"))
		s.head = append(s.head, line[:min(len(line), headBytes-len(s.head))]...)
		if complete {
			if isObject(string(s.head)) {
				ended++
			}
			s.head = s.head[:0]
		}
		part = rest
	}
	return ended
}

// isObject reports whether a line is the event of an object, by its beginning.
func isObject(head string) bool {
	for _, kind := range []string{"ADDED", "MODIFIED", "DELETED"} {
		if strings.HasPrefix(head, `{"type":"`+kind+`"`) {
			return true
		}
	}
	return false
}
