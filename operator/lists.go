// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	clientfeatures "k8s.io/client-go/features"
)

// listPlainly has the informers of this process begin with lists instead of streams of
// objects. The API server encodes each object of a stream apart: at 100,000 Addresses it needs
// twice the processor time, and the operator a third more until it is ready (docs/design/065).
func listPlainly() error {
	gates, ok := clientfeatures.FeatureGates().(interface {
		Set(feature clientfeatures.Feature, enabled bool) error
	})
	if !ok {
		return fmt.Errorf("have informers list: %T is fixed", clientfeatures.FeatureGates())
	}
	if err := gates.Set(clientfeatures.WatchListClient, false); err != nil {
		return fmt.Errorf("have informers list: %w", err)
	}
	return nil
}

// presentLists makes the first lists of informers show the present state, as streams do. Informers
// ask for any state, and an API server that was cut off from etcd may have an old one: a term
// begins with all claims that exist. Such lists are whole, because each further page costs the API
// server as much as the first. One list is read at a time: in memory, a list of 100,000 objects is
// several times as large as the rows kept of it. Pods follow Addresses, which the store takes first
// (feed.Fill): it takes them while the pods are read.
type presentLists struct {
	next http.RoundTripper
	turn chan struct{}
	// hasAddresses is closed, once, when Addresses were read.
	hasAddresses chan struct{}
	once         sync.Once
}

// Ends of the paths of large lists, in the order that the store takes them.
const (
	addressLists = "/addresses"
	podLists     = "/pods"
)

// newPresentLists fits rest.Config.Wrap.
func newPresentLists(next http.RoundTripper) http.RoundTripper {
	return &presentLists{next: next, turn: make(chan struct{}, 1), hasAddresses: make(chan struct{})}
}

// haveAddresses lets the list of pods begin.
func (p *presentLists) haveAddresses() { p.once.Do(func() { close(p.hasAddresses) }) }

// RoundTrip implements http.RoundTripper.
func (p *presentLists) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	if request.Method != http.MethodGet || query.Get("resourceVersion") != "0" || query.Has("watch") {
		if strings.HasSuffix(request.URL.Path, addressLists) {
			p.haveAddresses() // an informer asks differently after an error: pods wait no longer
		}
		return p.next.RoundTrip(request)
	}
	query.Del("resourceVersion")
	query.Del("limit")
	now := request.Clone(request.Context())
	now.URL.RawQuery = query.Encode()
	if err := p.wait(now); err != nil {
		return nil, err
	}
	response, err := p.next.RoundTrip(now)
	if err != nil {
		<-p.turn
		return nil, err
	}
	response.Body = ending{response.Body, sync.OnceFunc(func() {
		if response.StatusCode == http.StatusOK && strings.HasSuffix(now.URL.Path, addressLists) {
			p.haveAddresses()
		}
		<-p.turn
	})}
	return response, nil
}

// wait returns when it is the turn of a list.
func (p *presentLists) wait(list *http.Request) error {
	ctx := list.Context()
	if strings.HasSuffix(list.URL.Path, podLists) {
		select {
		case <-p.hasAddresses:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ending is a body with an action after its end.
type ending struct {
	io.ReadCloser
	then func()
}

// Close implements io.Closer.
func (e ending) Close() error {
	defer e.then()
	return e.ReadCloser.Close()
}
