// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAPIClient_MountedServiceAccount_Used(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		fmt.Fprintln(w, r.URL.Path)
	}))
	t.Cleanup(server.Close)
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", host)
	t.Setenv("KUBERNETES_SERVICE_PORT", port)

	folder := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, text := range map[string]string{"token": "secret\n", "namespace": "blue", "ca.crt": string(ca)} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	client, err := newAPIClient(folder)
	if err != nil {
		t.Fatalf("new client: %v", err)
	}
	got, err := client.get(t.Context(), "/api/v1/namespaces/{namespace}/pods")
	if err != nil || strings.TrimSpace(got) != "/api/v1/namespaces/blue/pods" {
		t.Errorf("got %q, %v", got, err)
	}

	client.token = "wrong"
	if _, err := client.get(t.Context(), "/version"); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a refused request ends with %v, want an error with 401", err)
	}
}
