use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// Runs `test` on a reactor like the daemon's.
fn on_reactor<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

fn frame(id: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    [&id.to_be_bytes()[..], &length.to_be_bytes(), payload].concat()
}

fn message(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap();
    [&length.to_be_bytes()[..], &1u32.to_be_bytes(), &[1, 0], body].concat()
}

/// What both pipes and the mux make of these bytes followed by the end of the socket.
fn feed(bytes: &[u8]) -> (Vec<u8>, Vec<u8>, Result<(), MuxError>) {
    on_reactor(async {
        let (near, mut far) = tokio::io::duplex(1 << 16);
        let (Connections { mut plugin, mut runtime }, carry) = open(near);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let send = async {
            let _ = far.write_all(bytes).await;
            let _ = far.shutdown().await;
        };
        let plugin_read = async { plugin.read_to_end(&mut first).await };
        let runtime_read = async { runtime.read_to_end(&mut second).await };
        let (end, ..) = tokio::join!(carry, send, plugin_read, runtime_read);
        (first, second, end)
    })
}

#[test]
fn frames_reach_their_connection_whatever_their_cut() {
    let whole = message(&[7; 100]);
    let bytes = [
        frame(1, &whole[..3]),
        frame(2, &message(b"x")),
        frame(1, &whole[3..50]),
        frame(9, b"?"),
        frame(1, b""),
    ]
    .concat();
    let (plugin, runtime, end) = feed(&[bytes, frame(1, &whole[50..])].concat());
    assert_eq!(plugin, whole);
    assert_eq!(runtime, message(b"x"));
    assert!(end.is_ok(), "{end:?}");
}

#[test]
fn a_frame_over_the_limit_ends_it_with_its_length() {
    let header = [&1u32.to_be_bytes()[..], &(MAX_PAYLOAD + 1).to_be_bytes()].concat();
    let (.., end) = feed(&header);
    assert_eq!(
        end.unwrap_err().to_string(),
        "the runtime sent a frame of 4194315 bytes on connection 1: at most 4194314 are allowed"
    );
}

#[test]
fn the_largest_message_passes_and_one_more_byte_does_not() {
    let largest = message(&vec![0; MAX_MESSAGE as usize]);
    let (plugin, _, end) = feed(&frame(1, &largest));
    assert_eq!(plugin.len(), largest.len());
    assert!(end.is_ok());

    let head = message(&[])[4..].to_vec();
    let over = [&(MAX_MESSAGE + 1).to_be_bytes()[..], &head].concat();
    let (.., end) = feed(&frame(2, &over));
    assert!(matches!(end, Err(MuxError::MessageTooLarge { id: 2, length: 4_194_305 })), "{end:?}");
}

#[test]
fn an_end_within_a_frame_says_where() {
    let bytes = frame(1, &message(b"abc"));
    let part = |cut: usize| feed(&bytes[..cut]).2.unwrap_err().to_string();
    assert_eq!(part(5), "the runtime's stream ended within a frame's header");
    assert_eq!(part(12), "the runtime's stream ended within a frame's payload");
}

/// The frames in which the mux sends these bytes, written to the plugin's end in such pieces.
fn sent(bytes: &[u8], piece: usize) -> Vec<Vec<u8>> {
    let sent = on_reactor(async {
        let (near, mut far) = tokio::io::duplex(1 << 16);
        let (Connections { mut plugin, runtime: _runtime }, carry) = open(near);
        let write = async move {
            for piece in bytes.chunks(piece) {
                plugin.write_all(piece).await.unwrap();
            }
        };
        let mut sent = Vec::new();
        let (end, ..) = tokio::join!(carry, write, far.read_to_end(&mut sent));
        assert!(matches!(end, Err(MuxError::ServiceEnded { id: 1 })), "{end:?}");
        sent
    });
    split_frames(&sent)
}

fn split_frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let length = u32::from_be_bytes(bytes[4..8].try_into().unwrap()) as usize;
        assert_eq!(bytes[..4], PLUGIN_SERVICE.to_be_bytes());
        frames.push(bytes[8..8 + length].to_vec());
        bytes = &bytes[8 + length..];
    }
    frames
}

#[test]
fn a_message_is_one_frame_up_to_4096_bytes_and_two_beyond() {
    let lengths = |body: usize| sent(&message(&vec![1; body]), 1000).iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lengths(0), [10]);
    assert_eq!(lengths(4086), [4096]);
    assert_eq!(lengths(4087), [4096, 1]);
    assert_eq!(lengths(20_000), [4096, 15_914]);
}

#[test]
fn two_messages_never_share_a_frame() {
    let two = [message(b"one"), message(&[2; 5000])].concat();
    let frames = sent(&two, two.len());
    assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [13, 4096, 914]);
    assert_eq!(frames.concat(), two);
}

#[test]
fn our_own_message_over_the_limit_is_not_sent() {
    on_reactor(async {
        let (near, _far) = tokio::io::duplex(64);
        let (Connections { mut plugin, runtime: _runtime }, carry) = open(near);
        plugin.write_all(&[&(MAX_MESSAGE + 1).to_be_bytes()[..], &[0; 6]].concat()).await.unwrap();
        let end = carry.await;
        assert!(matches!(end, Err(MuxError::ReplyTooLarge { id: 1, .. })), "{end:?}");
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_bytes_panic_or_hang(bytes in vec(any::<u8>(), 0..300)) {
        let _ = feed(&bytes);
    }

    /// Headers that make sense around bodies that need not.
    #[test]
    fn no_frames_panic_or_hang(frames in vec((0u32..4, vec(prop_oneof![Just(0u8), any::<u8>()], 0..40)), 0..12)) {
        let bytes: Vec<u8> = frames.iter().flat_map(|(id, payload)| frame(*id, payload)).collect();
        let _ = feed(&bytes);
    }

    #[test]
    fn what_goes_in_comes_out(bodies in vec(vec(any::<u8>(), 0..9000), 0..5), cut in 1usize..5000) {
        let bytes: Vec<u8> = bodies.iter().flat_map(|body| message(body)).collect();
        let frames = sent(&bytes, cut);
        prop_assert_eq!(frames.concat(), bytes.clone());
        let received: Vec<u8> = frames.iter().flat_map(|payload| frame(1, payload)).collect();
        prop_assert_eq!(feed(&received).0, bytes);
    }

    #[test]
    fn the_watch_does_not_care_how_bytes_are_cut(bytes in vec(prop_oneof![4 => Just(0u8), 1 => any::<u8>()], 0..200), cut in 1usize..40) {
        let mut whole = MessageWatch::default();
        let at_once = whole.advance(&bytes);
        let mut pieces = MessageWatch::default();
        let piecewise = bytes.chunks(cut).try_for_each(|piece| pieces.advance(piece));
        prop_assert_eq!(at_once, piecewise);
    }
}
