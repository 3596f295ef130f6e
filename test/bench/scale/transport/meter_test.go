// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// events is a watch of four events: three of objects, and a bookmark.
const events = `{"type":"ADDED","object":{"spec":{"text":"{\"type\":\"ADDED\""}}}
{"type":"BOOKMARK","object":{}}
{"type":"MODIFIED","object":{}}
{"type":"DELETED","object":{}}
`

func TestStream_AnyCut_EventsCounted(t *testing.T) {
	for name, cut := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "halves": iotest.HalfReader, "bytes": iotest.OneByteReader,
	} {
		m := NewMeter()
		s := &stream{ReadCloser: io.NopCloser(cut(strings.NewReader(events))), meter: m, resource: "pods"}
		if _, err := io.Copy(io.Discard, s); err != nil {
			t.Fatal(err)
		}
		if want := (Counts{"pods": {Events: 3, Bytes: len(events)}}); !reflect.DeepEqual(m.Counts(), want) {
			t.Errorf("%s: %v, want %v", name, m.Counts(), want)
		}
	}
}

func TestStream_IncompleteEvent_NotCounted(t *testing.T) {
	m := NewMeter()
	s := &stream{ReadCloser: io.NopCloser(strings.NewReader(`{"type":"ADDED","object":{}}`)), meter: m, resource: "pods"}
	if _, err := io.Copy(io.Discard, s); err != nil {
		t.Fatal(err)
	}
	if got := m.Counts()["pods"].Events; got != 0 {
		t.Errorf("%d events before the end of the line", got)
	}
}

func TestMeter_Requests_OnlyGrantedCounted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/secrets" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = io.WriteString(w, events)
	}))
	defer server.Close()
	m := NewMeter()
	client := &http.Client{Transport: m.Wrap(http.DefaultTransport)}
	for _, target := range []string{"/apis/alioth.dev/v1alpha1/addresses?watch=true&fieldSelector=spec.node%3Da", "/api/v1/pods?fieldSelector=spec.nodeName%3Da", "/api/v1/nodes/a", "/api/v1/secrets?watch=true"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	if want := (Counts{"addresses": {Events: 3, Bytes: len(events)}, "pods": {Listed: len(events)}}); !reflect.DeepEqual(m.Counts(), want) {
		t.Errorf("%v, want %v", m.Counts(), want)
	}
}

func TestCountsSince_Unchanged_LeftOut(t *testing.T) {
	before := Counts{"pods": {2, 20, 7}, "nodes": {1, 10, 7}}
	now := Counts{"pods": {3, 35, 7}, "nodes": {1, 10, 7}, "vpcs": {1, 5, 2}}
	since := now.Since(before)
	if want := (Counts{"pods": {1, 15, 0}, "vpcs": {1, 5, 2}}); !reflect.DeepEqual(since, want) {
		t.Errorf("%v, want %v", since, want)
	}
	if total := since.Total(); total != (Received{2, 20, 2}) {
		t.Errorf("total %v", total)
	}
}
