// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/alioth-net/alioth/cnid/internal/testnet"
)

// apiLink is the only way from a machine to the API server; it can be cut.
type apiLink struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	down  bool
	conns []net.Conn
}

func newAPILink(t *testing.T, m *machine, config *rest.Config) *apiLink {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	l := &apiLink{target: target.Host}
	testnet.In(t, m.NetNS, func() (err error) {
		l.listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		return err
	})
	t.Cleanup(func() {
		l.listener.Close()
		l.cut()
	})
	go l.serve()
	return l
}

func (l *apiLink) address() string { return l.listener.Addr().String() }

func (l *apiLink) serve() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", l.target)
		if err != nil || !l.keep(near, far) {
			near.Close()
			continue
		}
		for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
			go func() {
				_, _ = io.Copy(pair[0], pair[1])
				pair[0].Close()
			}()
		}
	}
}

func (l *apiLink) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, conns...)
	return !l.down
}

func (l *apiLink) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for _, conn := range l.conns {
		conn.Close()
	}
	l.conns = nil
}

func (l *apiLink) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

func writeKubeconfig(t *testing.T, path string, config *rest.Config, address string) {
	t.Helper()
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: "https://" + address, InsecureSkipTLSVerify: true}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: config.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
}
