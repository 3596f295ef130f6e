// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/durable"
)

// tokenBytes is the length of a token before it is written in hexadecimal digits.
const tokenBytes = 32

// Token returns the proof that clients of the TCP listener have to give: the content of a file
// that root of the node alone reads. A kubectl port-forward to a pod on the node's network is
// a connection of the runtime, so a client's process proves nothing. The file is in a folder
// that ends with the boot, and the next daemon keeps it, as clients may.
func Token(path string) (string, error) {
	token, err := readToken(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errToken) {
		return token, err
	}
	fresh := make([]byte, tokenBytes)
	if _, err := rand.Read(fresh); err != nil {
		return "", fmt.Errorf("make a token: %w", err)
	}
	token = hex.EncodeToString(fresh)
	file, err := durable.Create(path, []byte(token))
	if err != nil {
		return "", fmt.Errorf("write the token: %w", err)
	}
	return token, file.Close()
}

// errToken reports a file that somebody else may have written or read.
var errToken = errors.New("it is not a token that root alone can read")

func readToken(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return "", errToken
	}
	if err != nil {
		return "", fmt.Errorf("open the token %s: %w", path, err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	var about unix.Stat_t
	if err := unix.Fstat(fd, &about); err != nil {
		return "", fmt.Errorf("look at the token %s: %w", path, err)
	}
	if about.Mode != unix.S_IFREG|0o600 || about.Uid != 0 || about.Size != 2*tokenBytes {
		return "", errToken
	}
	text := make([]byte, 2*tokenBytes)
	if _, err := file.ReadAt(text, 0); err != nil {
		return "", fmt.Errorf("read the token %s: %w", path, err)
	}
	if _, err := hex.DecodeString(string(text)); err != nil {
		return "", errToken
	}
	return string(text), nil
}
