// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodestatus has the documents that a node's daemon serves to the people who run the
// node: over its root-only socket, as JSON. The types belong to the wire format and import none
// of the daemon's own; package convert makes them.
package nodestatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// Path is the path at the daemon's socket that answers a GET with a Status.
const Path = "/status/v1"

// Status is the state of one node. Fields may be added.
type Status struct {
	Node string `json:"node"`
	// Version is the daemon's output for --version. Plugin is the output of the CNI plugin in the
	// runtime's folder, or the reason of its absence.
	Version string `json:"version"`
	Plugin  string `json:"plugin"`
	// Synced is true once everything of this node had been read from the API.
	Synced bool `json:"synced"`
	// Programmed is true once the kernel had been programmed.
	Programmed bool `json:"programmed"`
	// Problem says why the kernel can't be programmed now, or is "".
	Problem string `json:"problem,omitempty"`
	// Warnings are problems that wait for a person, beside Problem; the gravest first.
	Warnings []string `json:"warnings,omitempty"`
	// PodMTU in bytes, 0 while not known.
	PodMTU int `json:"podMTU"`
	// Attachments are the attachments of the node. Releasing are earlier attachments that wait for
	// the release of their addresses. Both begin with the oldest.
	Attachments []Attachment `json:"attachments"`
	Releasing   []Attachment `json:"releasing"`
}

// Fetch asks the daemon behind a socket for its Status.
func Fetch(ctx context.Context, socket string) (Status, error) {
	return fetch[Status](ctx, socket, Path)
}

// FetchDump asks the daemon behind a socket for its Dump.
func FetchDump(ctx context.Context, socket string) (Dump, error) {
	return fetch[Dump](ctx, socket, DumpPath)
}

func fetch[T any](ctx context.Context, socket, path string) (answer T, err error) {
	response, err := ask(ctx, socket, http.MethodGet, path, http.NoBody)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return answer, fmt.Errorf("read answer of alioth-cnid: %w", err)
	}
	return answer, nil
}

// ask sends one request. The error of a refusal has the daemon's cause.
func ask(ctx context.Context, socket, method, path string, body io.Reader) (*http.Response, error) {
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(ctx, method, "http://alioth-cnid"+path, body)
	if err != nil {
		return nil, fmt.Errorf("ask alioth-cnid: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask alioth-cnid (run this as root on the node, or in the node's alioth-cnid pod): %w", err)
	}
	switch response.StatusCode {
	case http.StatusOK:
		return response, nil
	case http.StatusUnprocessableEntity, http.StatusForbidden:
		defer response.Body.Close()
		message, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
		if err != nil {
			return nil, fmt.Errorf("read answer of alioth-cnid: %w", err)
		}
		return nil, errors.New(strings.TrimSpace(string(message)))
	}
	response.Body.Close()
	return nil, fmt.Errorf("ask alioth-cnid: %s; is it of another release?", response.Status)
}

// Handler serves the document that current returns.
func Handler[T any](current func(context.Context) T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			http.Error(w, "want GET", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		// An error means that the client does not read the answer.
		_ = json.NewEncoder(w).Encode(current(r.Context()))
	})
}
